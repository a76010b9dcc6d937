"""`coli tune` as a user types it, on a machine made up of numbers."""

import pytest

from colibri.lab.tune import trial
from colibri.lab.tune.trial import Sample


@pytest.fixture
def speed(monkeypatch):
    """Speed by configuration; threads 1 is twice as fast unless changed."""
    speeds = {"of": lambda config: 20.0 if config.threads == 1 else 10.0}

    def run(self, config, seconds):
        tps = [speeds["of"](config)] * 2
        return Sample(tps, 0.1, 0.5, "same", 10**9, 10**8, 4, True)

    monkeypatch.setattr(trial.ProcessRunner, "run", run)
    monkeypatch.setattr("colibri.lab.tune.tune.os.cpu_count", lambda: 4)
    return speeds


def test_a_proven_gain_is_saved_shown_taken_and_deleted(coli, speed):
    done = coli("tune", "--threads", "3")
    assert done.code == 8  # decided by the user, so there is nothing to try
    done = coli("tune")
    assert done.code == 0, done.err
    assert "threads 1" in done.out
    assert "+100.0 % and +100.0 %" in done.out
    shown = coli("tune", "--show")
    assert "threads 1" in shown.out
    again = coli("tune")
    assert "as it is: 10.00" in again.err  # what is tuned is not what was tuned before
    ran = coli("run", "--max-tokens", "1", "Once", "--ram", "1GB")
    assert "1 thread, profile demo-" in ran.err
    assert "deleted" in coli("tune", "--reset").out
    assert "there is no profile" in coli("tune", "--show").out
    assert "there is no profile" in coli("tune", "--reset").out


def test_no_gain_has_a_code_of_its_own_and_saves_nothing(coli, speed):
    speed["of"] = lambda config: 10.0
    done = coli("tune")
    assert done.code == 8
    assert "no gain beyond noise: nothing saved" in done.out
    assert "there is no profile" in coli("tune", "--show").out


def test_too_little_time_is_said(coli):
    done = coli("tune", "--timeout", "1", "--tokens", "100000")
    assert done.code == 8
    assert "nothing tried, nothing saved; give --timeout more seconds" in done.out


def test_a_model_that_is_none_is_refused(coli, tmp_path):
    assert coli("tune", str(tmp_path)).code == 4


def test_a_profile_that_could_not_be_saved_is_not_looked_for(coli, speed, monkeypatch):
    monkeypatch.setattr("colibri.planner.profile.os.access", lambda path, mode: False)
    done = coli("tune")
    assert (done.code, done.out) == (2, "")
    assert "set XDG_CONFIG_HOME to a directory that may" in done.err

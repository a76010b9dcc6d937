"""The search for settings, on machines made up of numbers; and one real trial."""

import dataclasses
import os
import signal
from itertools import count

import pytest

from colibri.config import EngineConfig
from colibri.errors import ColibriError
from colibri.lab.tune.search import Search, Wishes
from colibri.lab.tune.space import Knob, knobs, worth_trying
from colibri.lab.tune.trial import OutOfTime, ProcessRunner, Sample, TrialFailed, Work, measure
from colibri.lab.tune.tune import profile_of, tune
from colibri.llm import embedded_model

BASE = EngineConfig(ram="1GB")
KNOBS = (
    Knob("threads", (1, 2, 4), streams=False),
    Knob("readers", (2, 8)),
    Knob("cache_share", (75, 50)),
)


def sample(speed, **changes):
    fields = {
        "tps": [speed, speed],
        "ttft_seconds": 0.1,
        "hit_rate": 0.5,
        "digest": "same",
        "budget_bytes": 10**9,
        "peak_bytes": 9 * 10**8,
        "slots": 4,
        "resident": False,
    }
    return Sample(**{**fields, **changes})


class Machine:
    """Speed by settings that differ from BASE; `speed` may be a number, a Sample or an error."""

    def __init__(self, speed, seconds=1.0, drift=lambda run: 1.0):
        self.speed = speed
        self.seconds = seconds
        self.drift = drift
        self.runs = []
        self.now = 0.0

    def run(self, config, seconds):
        self.now += self.seconds
        changed = {
            f.name: getattr(config, f.name)
            for f in dataclasses.fields(config)
            if getattr(config, f.name) != getattr(BASE, f.name)
        }
        self.runs.append(changed)
        found = self.speed(changed)
        if isinstance(found, Exception):
            raise found
        if isinstance(found, Sample):
            return found
        return sample(found * self.drift(len(self.runs)))


def search(machine, knobs=KNOBS, **wishes):
    lines = []
    one = Search(BASE, machine, Wishes(**wishes), lines.append, lambda: machine.now)
    one.start()
    return one.run(knobs), lines


def by_table(**gains):
    """Each setting of this value multiplies the speed."""

    def speed(changed):
        result = 10.0
        for name, value in changed.items():
            result *= gains.get(f"{name}_{value}", 1.0)
        return result

    return speed


def test_gains_of_several_settings_are_found_together():
    found, _ = search(Machine(by_table(threads_4=1.2, readers_8=1.1, cache_share_50=1.05)))
    assert found.outcome == "confirmed"
    assert found.settings == {"threads": 4, "readers": 8, "cache_share": 50}
    assert found.gain == pytest.approx(1.2 * 1.1 * 1.05 - 1)


def test_the_proof_is_in_both_orders():
    machine = Machine(by_table(threads_4=1.5))
    found, _ = search(machine)
    best = {"threads": 4}
    assert machine.runs[-4:] == [{}, best, best, {}]
    assert len(found.gains) == 2


def test_nothing_better_is_said_and_not_proven():
    machine = Machine(by_table(threads_4=1.02))
    found, _ = search(machine)
    assert (found.outcome, found.settings) == ("no gain", {})
    assert machine.runs[-1] != {}


def test_a_machine_that_speeds_up_by_itself_gains_nothing():
    found, _ = search(Machine(by_table(), drift=lambda run: 1.08**run))
    assert found.outcome != "confirmed"


def test_a_gain_within_noise_is_none():
    noisy = count()
    machine = Machine(by_table(threads_2=1.04), drift=lambda run: 1.0 + 0.1 * (next(noisy) % 2))
    found, lines = search(machine, knobs=KNOBS[:1])
    assert found.outcome == "no gain"
    assert "noise" in lines[0]


def proof(gains, start_noise):
    """The outcome where the proof's pairs have these gains, in turn, at a start of such noise."""
    starts, pairs = iter([10.0, 10.0 * (1 - start_noise)]), iter(gains)

    def speed(changed):
        if not changed:
            return sample(next(starts, 10.0))
        # The trial that finds it, then the pairs.
        return sample(15.0 if len(machine.runs) == 3 else 10.0 * (1 + next(pairs)))

    machine = Machine(speed)
    return search(machine, knobs=(Knob("threads", (4,), streams=False),))[0]


def test_a_gain_below_the_noise_of_its_proof_is_none():
    """Two pairs with 21 and 36 % at a noise of 25 % were taken for a gain."""
    found = proof([0.214, 0.355, 0.05, 0.21, 0.36, 0.1], start_noise=0.25)
    assert found.outcome == "not confirmed"
    assert len(found.gains) == 6
    assert found.noise > found.gain


def test_pairs_go_on_until_it_is_decided():
    steady = proof([0.214, 0.230, 0.221], start_noise=0.25)
    assert (steady.outcome, len(steady.gains)) == ("confirmed", 3)
    assert steady.gain == pytest.approx(0.214)
    assert steady.noise == pytest.approx(0.016)
    clear = proof([0.3, 0.31], start_noise=0.25)
    assert (clear.outcome, len(clear.gains)) == ("confirmed", 2)
    assert proof([-0.1, 0.2], start_noise=0.1).gains == pytest.approx([-0.1])


def test_a_gain_that_does_not_come_back_is_not_confirmed():
    def speed(changed):
        speed.calls += 1
        return 20.0 if changed == {"threads": 4} and speed.calls < 6 else 10.0

    speed.calls = 0
    found, _ = search(Machine(speed), knobs=KNOBS[:1])
    assert found.outcome == "not confirmed"


@pytest.mark.parametrize(
    ("bad", "word"),
    [
        (sample(99.0, digest="other"), "not the same, to the bit"),
        (sample(99.0, peak_bytes=12 * 10**8), "more memory than the budget"),
        (TrialFailed("the system killed it"), "killed"),
    ],
)
def test_what_must_not_be_is_disqualified_and_told(bad, word):
    found, lines = search(Machine(lambda c: bad if c.get("threads") == 4 else 10.0))
    assert found.outcome == "no gain"
    assert any(word in line and "threads 4" in line for line in lines)
    (tried,) = [t for t in found.tried if t.settings == {"threads": 4}]
    assert tried.speed is None


def test_a_later_first_token_outweighs_a_gain():
    slow = sample(99.0, ttft_seconds=0.13)
    found, _ = search(Machine(lambda c: slow if c.get("threads") == 4 else 10.0))
    assert found.outcome == "no gain"


def test_the_time_is_kept():
    machine = Machine(by_table(threads_4=1.5), seconds=10.0)
    found, lines = search(machine, seconds=85.0)
    assert machine.now <= 85.0
    assert any("not everything was tried" in line for line in lines)
    assert found.outcome in ("confirmed", "no time", "no gain")


def test_a_proof_that_the_end_cuts_short_is_none_for_want_of_time():
    def speed(changed):
        proving = len(machine.runs) > 7
        return OutOfTime("over") if proving else by_table(threads_4=2)(changed)

    machine = Machine(speed)
    found, _ = search(machine)
    assert found.outcome == "no time"


def test_a_start_that_takes_all_the_time_is_no_error():
    found = tune(BASE, (), Machine(lambda changed: OutOfTime("over")), Wishes())
    assert (found.outcome, found.settings, found.tried) == ("nothing tried", {}, [])


def test_drift_in_the_proof_is_no_proof():
    def speed(changed):
        speed.calls += 1
        last = speed.calls == 4 + 2  # the second run of the proof
        return sample(20.0 if changed else 10.0, digest="other" if last else "same")

    speed.calls = 0
    found, _ = search(Machine(speed), knobs=(Knob("threads", (4,), streams=False),))
    assert found.outcome == "not confirmed"


def test_a_start_that_cannot_run_is_an_error():
    with pytest.raises(ColibriError, match="no memory"):
        tune(BASE, (), Machine(lambda c: TrialFailed("no memory")), Wishes())


def test_what_the_user_decided_and_what_has_no_effect_is_not_tried():
    everything = knobs(4, 8)
    fields = {knob.field for knob in worth_trying(everything, sample(1.0), {"readers"})}
    assert "readers" not in fields
    assert {"threads", "direct", "cache_share", "lookahead"} <= fields
    resident = worth_trying(everything, sample(1.0, resident=True), ())
    assert [knob.field for knob in resident] == ["threads"]
    assert everything[0].values == (2, 4, 8)


def test_every_trial_has_the_budget_of_the_first():
    """B026."""
    machine = Machine(by_table())
    seen = []
    machine.speed = lambda changed: seen.append(changed.get("ram")) or 10.0
    tune(dataclasses.replace(BASE, ram="auto"), (), machine, Wishes())
    assert len(set(seen)) == 1
    assert seen[0].endswith("B")


def test_the_profile_of_a_find_names_model_and_machine():
    found, _ = search(Machine(by_table(threads_4=1.5)))
    profile = profile_of(found, embedded_model())
    assert (profile.settings, profile.name) == ({"threads": 4}, "demo")
    assert profile.gain == pytest.approx(0.5)


def test_a_real_trial_measures_and_its_digest_holds():
    config = EngineConfig(ram="1GB", context=128, lookahead="off", profile="off")
    first = measure(config, Work(tokens=3, repeats=1))
    small = dataclasses.replace(config, cache_share=10, readers=1)
    second = ProcessRunner(Work(tokens=3, repeats=1)).run(small, 60.0)
    assert first.digest == second.digest
    assert first.resident
    assert (second.resident, second.slots) == (False, 3)
    assert second.hit_rate < first.hit_rate
    assert second.speed > 0


def test_a_trial_that_cannot_load_says_why():
    with pytest.raises(TrialFailed, match="does not suffice"):
        ProcessRunner(Work(2, 1)).run(EngineConfig(ram="20MB"), 60.0)


def test_a_trial_that_hangs_or_is_killed_ends(monkeypatch):
    """B021."""
    with pytest.raises(TrialFailed, match="longer"):
        ProcessRunner(Work(2, 1)).run(BASE, 0.0)
    received = ProcessRunner.run.__globals__["_received"]

    def kill(pipe, process, seconds):
        os.kill(process.pid, signal.SIGKILL)
        return received(pipe, process, seconds)

    monkeypatch.setitem(ProcessRunner.run.__globals__, "_received", kill)
    with pytest.raises(TrialFailed, match="memory ran out"):
        ProcessRunner(Work(2, 1)).run(BASE, 60.0)

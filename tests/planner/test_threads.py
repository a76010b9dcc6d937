import logging

import pytest

from colibri import LLM
from colibri.config import EngineConfig
from colibri.kernels import cpu
from colibri.planner.threads import beyond_allowed, processors, use_threads


@pytest.fixture(autouse=True)
def _as_before():
    yield
    cpu.configure()


@pytest.mark.parametrize(
    ("allowed", "quota", "expected"), [(8, None, 8), (8, 2.5, 3), (2, 4.0, 2), (4, 0.3, 1)]
)
def test_what_may_be_at_work_at_once(allowed, quota, expected):
    assert processors(allowed, quota) == expected


def test_threads_that_only_wait_are_told_of():
    assert beyond_allowed(None, 2) == beyond_allowed(2, 2) == ()
    (note,) = beyond_allowed(3, 2)
    assert note.startswith("--threads 3: this process may use 2 processors at a time")


def test_threads_follow_the_control_groups_quota(monkeypatch):
    """B102: also where only the group's ancestors, or version 1, say it."""
    from dataclasses import replace

    from colibri.planner import threads

    facts = replace(threads.probe.facts(), physical_cores=3)
    monkeypatch.setattr(threads.probe, "facts", lambda: facts)
    use_threads(EngineConfig())
    assert cpu.num_threads() == 3


def test_a_run_warns(monkeypatch, caplog):
    monkeypatch.setattr(cpu, "allowed_cpus", lambda: [0])
    with caplog.at_level(logging.WARNING), LLM(threads=2, ram="1GB"):
        pass
    assert any(r.getMessage().startswith("--threads 2: ") for r in caplog.records)

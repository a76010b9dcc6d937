"""One small run of the bench on the embedded model, shared by the tests that look at it."""

import pytest

from colibri.config import EngineConfig
from colibri.hardware import iobench
from colibri.lab import measure
from colibri.lab.measure import Workload
from colibri.lab.summary import summarise

WORKLOAD = Workload(prompt_tokens=24, new_tokens=6, warmup=1, repeat=2, cold=True)


@pytest.fixture(scope="session")
def measured():
    with pytest.MonkeyPatch.context() as patch:
        # Not the measuring itself: half a gigabyte is much for a test.
        patch.setattr(measure, "memory_bandwidth", lambda available: 10e9)
        config = EngineConfig(ram="600MB")
        return measure.measure(config, WORKLOAD, cache_fraction=0.25)


@pytest.fixture(scope="session")
def results(measured):
    return summarise(measured, ["coli", "bench", "--seed", "<0>"])


@pytest.fixture
def small_streams(monkeypatch):
    monkeypatch.setattr(iobench, "_LEAST_STREAM", 1 << 20)
    monkeypatch.setattr(iobench, "_MOST_STREAM", 1 << 20)

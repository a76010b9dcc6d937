"""One small run of the bench on the embedded model, shared by the tests that look at it."""

import pytest

from colibri.config import EngineConfig
from colibri.hardware.iobench import DiskRate
from colibri.lab.measure import measure
from colibri.lab.summary import summarise
from colibri.lab.workload import Workload

WORKLOAD = Workload(prompt_tokens=24, new_tokens=6, warmup=1, repeat=2, cold=True)


class FixedGauge:
    """Of a machine with these bandwidths: half a gigabyte to measure it is much for a test."""

    def memory(self, threads):
        return 10e9

    def disk(self, extents, readers):
        assert all(e.nbytes % 4096 == 0 for e in extents)
        return DiskRate(1e9, True, 1 << 20)

    def bursts(self, extents, readers, at_a_time, pause_seconds):
        assert 1 <= at_a_time <= 8  # a token asks for four experts; several conversations for more
        assert 0 < pause_seconds < 1
        return 0.5e9


@pytest.fixture(scope="session")
def gauge():
    return FixedGauge()


@pytest.fixture(scope="session")
def measured(gauge):
    return measure(
        EngineConfig(ram="1GB", lookahead="off"), WORKLOAD, gauge=gauge, cache_fraction=0.25
    )


@pytest.fixture(scope="session")
def results(measured):
    return summarise(measured, ["coli", "bench", "--seed", "<0>"])

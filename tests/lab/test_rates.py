"""What the machine can do, measured beside a model that is loaded."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from colibri import LLM
from colibri.kernels import cpu
from colibri.lab.gauge import ProcessGauge
from colibri.lab.rates import rates_beside

pytestmark = pytest.mark.alone


def peak_kilobytes() -> int:
    found = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())
    assert found
    return int(found[1])


def test_measuring_takes_no_memory_of_the_models_process() -> None:
    with LLM(ram="2GB", context=256) as llm:
        with ProcessGauge() as gauge:  # what a pool of processes takes itself
            gauge.memory(cpu.num_threads())
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        before = peak_kilobytes()
        found = rates_beside(llm)
        grown = peak_kilobytes() - before
    assert found.memory is not None
    assert found.memory > 0
    assert found.compute is not None
    assert found.compute > 0
    assert grown < 4_000  # the matrix alone has 17,000

"""Loading and closing leaves nothing behind."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

import golden
from colibri import LLM
from colibri.errors import ColibriError

pytestmark = pytest.mark.alone


def held() -> tuple[int, int]:
    """Open descriptors, threads."""
    return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")
@pytest.mark.parametrize("cycles", [12, pytest.param(200, marks=pytest.mark.soak)])
def test_neither_descriptors_nor_threads_remain(cycles: int, tmp_path: Path) -> None:
    model = golden.tiny("olmoe")
    copy = shutil.copytree(model, tmp_path / "copy")
    before = held()
    for n in range(cycles):
        mirror = (str(copy),) if n % 2 else ()
        with LLM(
            model, ram="1GB", cache_experts=2, lookahead=1, mirror=mirror, disk_weights=(1, 1)
        ) as llm:
            llm.forward([1, 2, 3])
        with pytest.raises(ColibriError, match="holds nothing"):  # when much is open already
            LLM(model, ram="1GB", mirror=(str(tmp_path),))
        if n == 0:
            before = held()  # the kernels' own threads stay
    assert held() == before

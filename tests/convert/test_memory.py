"""Peak memory is a few experts and a few pieces of the trunk, not a layer, shard or matrix."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from convert_kit import Model, write_checkpoint

from colibri.convert import convert

pytestmark = pytest.mark.alone


@pytest.mark.parametrize("fused", [True, False])
def test_peak_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fused: bool) -> None:
    monkeypatch.setattr("colibri.convert.source.BLOCK_BYTES", 1 << 16)
    monkeypatch.setattr("colibri.convert.produce._HELD_BYTES", 1 << 20)
    monkeypatch.setattr("colibri.container.partfile.PIECE_BYTES", 1 << 20)
    model = Model(hidden=256, inner=64, experts=128, draft=False)
    tensors = model.tensors()
    tensors["lm_head.weight"] = np.ones((20_000, 256), np.uint16)  # 10 MB
    if fused:
        tensors = model.fused(tensors)
    source = write_checkpoint(tmp_path / "source", tensors)
    del tensors
    expert = 3 * 256 * 64 * 2
    tracemalloc.start()
    convert(source, tmp_path / "out", weights=model.weights, family="toy", store_trunk=8)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    reading_back = 4 << 20
    assert peak < 20 * expert + reading_back + (1 << 20) < 0.7 * 128 * expert

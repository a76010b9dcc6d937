from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_model import bf16, write_config, write_tensors

from colibri.container.reader import Container, open_container
from colibri.container.weights import Rule, WeightMap
from colibri.errors import ContainerError
from colibri.formats.base import Matrix
from colibri.formats.floats import FloatFormat
from colibri.formats.packed import INT4, INT8, PackedFormat, pack_matrix
from colibri.layers import absorb
from colibri.layers.absorb import load_absorbed

HEADS, NOPE, LATENT = 5, 24, 48
RNG = np.random.default_rng(2)


def container(path: Path, w: np.ndarray[Any, Any]) -> Container:
    write_config(path)
    write_tensors(path / "model.safetensors", {"kv_b": w})
    return open_container(path, lambda _: WeightMap((Rule(".*", "trunk", "absorbed"),), {}, {}))


def load(path: Path, w: np.ndarray[Any, Any], bits: Any) -> tuple[Matrix, Matrix]:
    value_dim = len(w) // HEADS - NOPE
    return load_absorbed(
        container(path, w), "kv_b", heads=HEADS, nope_dim=NOPE, value_dim=value_dim, bits=bits
    )


def halves(w: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    per_head = w.reshape(HEADS, -1, LATENT)
    key = np.concatenate([h[:NOPE].T for h in per_head])
    return np.ascontiguousarray(key), np.concatenate([h[NOPE:] for h in per_head])


def weights(value_dim: int, factor: float = 1.0) -> np.ndarray[Any, Any]:
    w = RNG.normal(size=(HEADS * (NOPE + value_dim), LATENT)).astype(np.float32)
    w[-1] *= factor
    return w


@pytest.mark.parametrize("heads_a_piece", [1, 2, 100])
@pytest.mark.parametrize("factor", [1.0, 1e9, 1e-7])
@pytest.mark.parametrize("bits", [8, 4])
def test_packed_as_the_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, heads_a_piece: int, factor: float, bits: int
) -> None:
    w = bf16(weights(32, factor))
    monkeypatch.setattr(absorb, "_PIECE_BYTES", heads_a_piece * w.nbytes // HEADS)
    multipliers = []
    for got, half in zip(load(tmp_path, w, bits), halves(w), strict=True):
        expected = pack_matrix(half, INT8 if bits == 8 else INT4)
        assert isinstance(got.format, PackedFormat)
        assert (got.rows, got.cols) == half.shape
        assert got.multiplier == expected.multiplier
        np.testing.assert_array_equal(got.data, expected.data)
        multipliers.append(got.multiplier)
    assert multipliers[0] == 1.0
    assert (multipliers[1] == 1.0) == (factor == 1.0)


@pytest.mark.parametrize("bits", ["source", 8])
def test_a_half_that_fills_no_blocks_stays_as_it_came(tmp_path: Path, bits: Any) -> None:
    w = weights(20)
    key, value = load(tmp_path, w, bits)
    expected = halves(w)
    assert isinstance(value.format, FloatFormat)
    np.testing.assert_array_equal(value.data, expected[1])
    assert isinstance(key.format, FloatFormat if bits == "source" else PackedFormat)
    if isinstance(key.format, FloatFormat):
        np.testing.assert_array_equal(key.data, expected[0])


@pytest.mark.parametrize("row", [0, -1])
def test_a_weight_that_is_not_finite(tmp_path: Path, row: int) -> None:
    w = weights(32)
    w[row, 7] = np.inf
    with pytest.raises(ContainerError, match=r"'kv_b': a weight of heads 0\.\.4 is not finite"):
        load(tmp_path, w, 8)

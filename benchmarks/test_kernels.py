"""Kernels, by `make bench`: never a gate. The name of a row ends with its rate: GB/s of weights for
one token, else GFLOP/s (also in the extra_info of --benchmark-json).

One token walks over more weights than a last-level cache holds; more stay on one matrix.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from colibri.formats.base import Matrix
from colibri.formats.floats import float_matrix
from colibri.formats.fp8 import fp8_matrix, scale_shape
from colibri.formats.packed import INT4, INT8, PackedFormat, pack_expert, pack_matrix
from colibri.kernels import cpu
from colibri.kernels.attention import attend
from colibri.kernels.matmul import matmul
from colibri.kernels.moe import ExpertLayout, ExpertTable, moe_all

RNG = np.random.default_rng(0)
ROWS, COLS = 2048, 4096  # an expert of the GLM shape
SCHEMES = ("int4-gs64", "int8-gs64", "bf16", "fp8")


@pytest.fixture(autouse=True)
def machine(benchmark: Any) -> None:
    cpu.configure()
    benchmark.extra_info |= {"path": cpu.active_path(), "threads": cpu.num_threads()}


@pytest.fixture
def beyond_cache(benchmark: Any) -> int:
    """Bytes that no last-level cache holds; few where nothing is timed."""
    return 0 if benchmark.disabled else 400_000_000


def normal(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def matrices(scheme: Any, at_least_bytes: int) -> list[Matrix]:
    w = normal(ROWS, COLS) / np.float32(np.sqrt(COLS))
    if scheme == "bf16":
        first = float_matrix((w.view(np.uint32) >> 16).astype(np.uint16))
        size = first.nbytes
        return [first, *(float_matrix(first.data.copy()) for _ in range(at_least_bytes // size))]
    if scheme == "fp8":
        codes = RNG.integers(0, 120, (ROWS, COLS), dtype=np.uint8)
        scales = np.ones(scale_shape(ROWS, COLS), np.float32)
        count = 1 + at_least_bytes // codes.nbytes
        return [fp8_matrix(codes.copy(), scales) for _ in range(count)]
    packed = pack_matrix(w, INT4 if scheme == "int4-gs64" else INT8)
    copies = (packed.data.copy() for _ in range(at_least_bytes // packed.nbytes))
    return [
        packed,
        *(packed.format.matrix(ROWS, COLS, (d,), packed.multiplier) for d in copies),
    ]


@pytest.mark.parametrize(
    ("scheme", "planes"),
    [
        ("int4-gs64", 2),
        ("int4-gs64", 1),
        ("int8-gs64", 2),
        ("int8-gs64", 1),
        ("bf16", 2),
        ("fp8", 2),
    ],
)
def test_matmul_of_one_token(benchmark: Any, beyond_cache: int, scheme: str, planes: int) -> None:
    ws = matrices(scheme, beyond_cache)
    x, turn = normal(1, COLS), itertools.cycle(ws)
    benchmark(lambda: matmul(x, next(turn), planes))
    rate(benchmark, "GB/s", ws[0].nbytes)


@pytest.mark.parametrize("tokens", [16, 256])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_matmul_of_many_tokens(benchmark: Any, scheme: str, tokens: int) -> None:
    (w,) = matrices(scheme, 0)
    x = normal(tokens, COLS)
    benchmark(lambda: matmul(x, w))
    rate(benchmark, "GFLOP/s", 2 * tokens * ROWS * COLS)


@pytest.mark.parametrize("format", [INT4, INT8], ids=lambda format: format.name)
def test_moe_of_one_token(benchmark: Any, beyond_cache: int, format: PackedFormat) -> None:
    """Eight experts of the OLMoE shape a token, from a pool beyond the cache."""
    hidden, inner, chosen = 2048, 1024, 8
    body, mults = pack_expert(
        normal(inner, hidden) / 45, normal(inner, hidden) / 45, normal(hidden, inner) / 32, format
    )
    count = max(beyond_cache // body.nbytes // chosen, 1)
    pool = page_aligned(count * chosen, body.nbytes)
    pool[:] = body
    down = 2 * format.nbytes(inner, hidden)
    start = np.uint64(pool.ctypes.data)
    base = start + np.arange(len(pool), dtype=np.uint64) * np.uint64(body.nbytes)
    parts = np.stack([base, base, base + np.uint64(down)], 1).reshape(count, chosen, 3)
    layout, scales = (
        ExpertLayout(format, hidden, inner),
        np.array([mults] * chosen, np.float32),
    )
    routing = np.arange(chosen, dtype=np.int32)[None], np.full((1, chosen), 1 / 8, np.float32)
    tables = [ExpertTable(layout, some, scales, 2) for some in parts]
    x, turn = normal(1, hidden), itertools.cycle(tables)
    benchmark(lambda: moe_all(next(turn), *routing, x))
    rate(benchmark, "GB/s", chosen * body.nbytes)


@pytest.mark.parametrize(
    ("heads", "kv_heads", "dk", "dv"), [(32, 4, 128, 128), (16, 1, 576, 512)], ids=["gqa", "mla"]
)
@pytest.mark.parametrize("rows", [1, 64])
def test_attend(benchmark: Any, rows: int, heads: int, kv_heads: int, dk: int, dv: int) -> None:
    keys = 4096
    q, k = normal(rows, heads, dk), normal(keys, kv_heads, dk)
    v = k[..., :dv]
    positions = np.arange(keys - rows, keys)
    benchmark(lambda: attend(q, k, v, positions, dk**-0.5))
    rate(benchmark, "GFLOP/s", 2 * rows * keys * heads * (dk + dv))


def page_aligned(rows: int, cols: int) -> Any:
    """uint8 [rows, cols], as slots lie in the arena."""
    raw = np.empty(rows * cols + 4096, np.uint8)
    return raw[-raw.ctypes.data % 4096 :][: rows * cols].reshape(rows, cols)


def rate(benchmark: Any, unit: str, work: int) -> None:
    if benchmark.stats is not None:  # None where timing is switched off
        rounds = benchmark.stats.stats
        benchmark.extra_info[unit] = round(work / rounds.median / 1e9, 2)
        benchmark.stats.name += f" {benchmark.extra_info[unit]} {unit}"

"""The routed experts of two models, matrix by matrix."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colibri.container.direct import DirectFiles
from colibri.container.layerexperts import LayerExperts
from colibri.container.spec import body_bytes, verify_record
from colibri.container.trunk import to_float32
from colibri.kernels.fp8 import Fp8Matrix, scale_shape
from colibri.kernels.packing import BLOCK_ROWS, Scheme, block_bytes, decode_fp8, unpack
from colibri.lab.verify.cosine import Likeness

F32 = NDArray[np.float32]
U8 = NDArray[np.uint8]

MATRICES = ("gate", "up", "down")
_PIECE_ELEMENTS = 1 << 20
_DTYPES = {"bf16": np.uint16, "f16": np.float16, "f32": np.float32}
_SCALES = {
    "fp8-e4m3-b128": np.float32,
    "fp8-e4m3-b128-bf16": np.uint16,
    "fp8-e4m3-b128-ue8m0": np.uint8,
}


@dataclass(frozen=True)
class Compared:
    """A matrix of an expert, in both models."""

    layer: int
    expert: int
    matrix: str
    scheme: str  # of the converted one
    cosine: float
    largest_difference: float


@dataclass(frozen=True)
class _Rows:
    """A matrix whose rows can be had as float32, so many at a time."""

    rows: int
    cols: int
    take: Callable[[int, int], F32]


def compare_experts(
    source: Mapping[int, LayerExperts],
    converted: Mapping[int, LayerExperts],
    sample: int | None,
    step: Callable[[], None] = lambda: None,
) -> Iterator[Compared]:
    """Three for each expert, of at most `sample` experts a layer, evenly spread.

    Raises ContainerError for a record that is damaged or not its expert's.
    """
    with contextlib.closing(DirectFiles()) as files:
        for number, layer in sorted(converted.items()):
            for expert in spread(layer.num_experts, sample):
                pairs = zip(
                    MATRICES,
                    _matrices(files, source[number], expert),
                    _matrices(files, layer, expert),
                    strict=True,
                )
                for name, a, b in pairs:
                    found = _compare(a, b)
                    scheme, largest = layer.layout.scheme, found.largest_difference
                    yield Compared(number, expert, name, scheme, found.cosine, largest)
                step()


def spread(count: int, most: int | None) -> Sequence[int]:
    if most is None or most >= count:
        return range(count)
    return [i * count // most for i in range(most)]


def _compare(a: _Rows, b: _Rows) -> Likeness:
    found = Likeness()
    step = max(BLOCK_ROWS, _PIECE_ELEMENTS // a.cols // BLOCK_ROWS * BLOCK_ROWS)
    for start in range(0, a.rows, step):
        stop = min(start + step, a.rows)
        found.add(a.take(start, stop), b.take(start, stop))
    return found


def _matrices(files: DirectFiles, layer: LayerExperts, expert: int) -> tuple[_Rows, _Rows, _Rows]:
    slot = _slot(files, layer, expert)
    return _packed(layer, expert, slot) if layer.record else _dense(layer, expert, slot)


def _slot(files: DirectFiles, layer: LayerExperts, expert: int) -> U8:
    """What the engine would have in a slot of its cache."""
    slot = np.empty(layer.slot_bytes, np.uint8)
    for span in layer.reads(expert):
        part = files.borrow(span.file, span.offset, span.needed)
        slot[span.slot_offset : span.slot_offset + span.needed] = part
    return slot


def _dense(layer: LayerExperts, expert: int, slot: U8) -> tuple[_Rows, _Rows, _Rows]:
    hidden, inner = layer.layout.hidden, layer.layout.inner
    shapes = ((inner, hidden), (inner, hidden), (hidden, inner))
    if layer.layout.is_fp8:
        return _fp8(layer, expert, slot, shapes)
    dtype = np.dtype(_DTYPES[layer.layout.scheme])

    def matrix(offset: int, rows: int, cols: int) -> _Rows:
        data = slot[offset : offset + rows * cols * dtype.itemsize].view(dtype).reshape(rows, cols)
        return _Rows(rows, cols, lambda start, stop: to_float32(data[start:stop]))

    offsets = layer.parts(expert)
    gate, up, down = (matrix(o, *shape) for o, shape in zip(offsets, shapes, strict=True))
    return gate, up, down


def _fp8(
    layer: LayerExperts, expert: int, slot: U8, shapes: Sequence[tuple[int, int]]
) -> tuple[_Rows, _Rows, _Rows]:
    codes, scales = layer.parts(expert)[:3], layer.parts(expert)[3:]
    dtype = np.dtype(_SCALES[layer.layout.scheme])

    def matrix(i: int) -> _Rows:
        (rows, cols), first = shapes[i], layer.layout.up_first if i == 1 else 0
        grid = scale_shape(rows, cols, first)
        data = slot[codes[i] :][: rows * cols].reshape(rows, cols)
        raw = slot[scales[i] :][: grid[0] * grid[1] * dtype.itemsize]
        values = decode_fp8(Fp8Matrix(data, raw.copy().view(dtype).reshape(grid), first))
        return _Rows(rows, cols, lambda start, stop: values[start:stop])

    return matrix(0), matrix(1), matrix(2)


def _packed(layer: LayerExperts, expert: int, slot: U8) -> tuple[_Rows, _Rows, _Rows]:
    (span,) = layer.reads(expert)
    tail = verify_record(slot, layer.layer, expert, str(span.file))
    hidden, inner = layer.layout.hidden, layer.layout.inner
    scheme: Scheme = "int8-gs64" if layer.layout.scheme == "int8-gs64" else "int4-gs64"
    middle, end = layer.parts(expert)[2], body_bytes(scheme, hidden, inner)
    pairs = slot[:middle].reshape(-1, 2, block_bytes(scheme, hidden))
    down = slot[middle:end].reshape(-1, block_bytes(scheme, inner))

    def matrix(blocks: U8, rows: int, cols: int, multiplier: float) -> _Rows:
        def take(start: int, stop: int) -> F32:
            data = np.ascontiguousarray(blocks[start // BLOCK_ROWS : -(-stop // BLOCK_ROWS)])
            return unpack(data.reshape(-1), scheme, stop - start, cols, multiplier)

        return _Rows(rows, cols, take)

    g, u, d = tail.multipliers
    return (
        matrix(pairs[:, 0], inner, hidden, g),
        matrix(pairs[:, 1], inner, hidden, u),
        matrix(down, hidden, inner, d),
    )

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
from colibri.container.trunk import naming_the_weight
from colibri.formats.base import decode
from colibri.formats.packed import BLOCK_ROWS, PackedFormat
from colibri.lab.verify.cosine import Likeness

F32 = NDArray[np.float32]
U8 = NDArray[np.uint8]

MATRICES = ("gate", "up", "down")
_PIECE_ELEMENTS = 1 << 20


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
                    scheme, largest = layer.layout.format.name, found.largest_difference
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
    layout, offsets = layer.layout, layer.parts(expert)
    (span, *_) = layer.reads(expert)

    def matrix(i: int, rows: int, cols: int) -> _Rows:
        first = layout.up_first if i == 1 else 0
        sizes = layout.format.part_bytes(rows, cols, first)
        parts = [slot[offsets[3 * n + i] :][:size] for n, size in enumerate(sizes)]
        where = f"{span.file}: {MATRICES[i]} of expert {expert} in layer {layer.layer}"
        with naming_the_weight(where, 0):
            values = decode(layout.format.matrix(rows, cols, parts, first=first))
        return _Rows(rows, cols, lambda start, stop: values[start:stop])

    hidden, inner = layout.hidden, layout.inner
    return matrix(0, inner, hidden), matrix(1, inner, hidden), matrix(2, hidden, inner)


def _packed(layer: LayerExperts, expert: int, slot: U8) -> tuple[_Rows, _Rows, _Rows]:
    (span,) = layer.reads(expert)
    tail = verify_record(slot, layer.layer, expert, str(span.file))
    hidden, inner = layer.layout.hidden, layer.layout.inner
    format = layer.layout.format
    assert isinstance(format, PackedFormat)
    middle, end = layer.parts(expert)[2], body_bytes(format, hidden, inner)
    pairs = slot[:middle].reshape(-1, 2, format.block_bytes(hidden))
    down = slot[middle:end].reshape(-1, format.block_bytes(inner))

    def matrix(blocks: U8, rows: int, cols: int, multiplier: float) -> _Rows:
        def take(start: int, stop: int) -> F32:
            data = np.ascontiguousarray(blocks[start // BLOCK_ROWS : -(-stop // BLOCK_ROWS)])
            return decode(format.matrix(stop - start, cols, (data,), multiplier))

        return _Rows(rows, cols, take)

    g, u, d = tail.multipliers
    return (
        matrix(pairs[:, 0], inner, hidden, g),
        matrix(pairs[:, 1], inner, hidden, u),
        matrix(down, hidden, inner, d),
    )

"""int4 and int8 in groups of 64 inputs, in the r16-v1 layout; int3 made from them, in memory only.

Every kernel reads that layout in place. What is packed are floats (floats.py).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from colibri import _native
from colibri.formats.base import U8, Array, Format, Matrix, NonFiniteError
from colibri.formats.floats import float_matrix
from colibri.formats.names import Scheme

GROUP = 64
BLOCK_ROWS = 16


@dataclass(frozen=True)
class ScaleRange:
    """Smallest and largest nonzero |group scale| before fp16; (inf, 0) if all are zero."""

    smallest: float
    largest: float

    def merged(self, other: ScaleRange) -> ScaleRange:
        return ScaleRange(min(self.smallest, other.smallest), max(self.largest, other.largest))


NO_SCALES = ScaleRange(math.inf, 0.0)


@dataclass(frozen=True)
class PackedFormat(Format):
    """code_bits: of a weight's code, without its share of a scale."""

    code_bits: int

    def block_bytes(self, cols: int) -> int:
        """Bytes of one block of 16 rows."""
        size = -(-cols // GROUP) * BLOCK_ROWS * (GROUP * self.code_bits // 8 + 2)
        return size + -size % 64

    def part_bytes(self, rows: int, cols: int, first: int = 0) -> tuple[int, ...]:
        """Its blocks, the last one padded to 16 rows."""
        return (-(-rows // BLOCK_ROWS) * self.block_bytes(cols),)


INT3 = PackedFormat("int3-gs64", 6, 3.25, ("data",), 3)
INT4 = PackedFormat("int4-gs64", 7, 4.25, ("data",), 4)
INT8 = PackedFormat("int8-gs64", 8, 8.25, ("data",), 8)

# What a container may hold, by the names of its manifest and of `coli convert --scheme`.
SCHEMES: Mapping[Scheme, PackedFormat] = {"int4-gs64": INT4, "int8-gs64": INT8}


def multiplier_for(r: ScaleRange) -> float:
    """The power of two that brings the scales into the range of fp16.

    1 if fp16 holds every scale as a normal number; else the largest scale lands in [2^14, 2^15),
    with no multiplier below 2^-126, where float32 itself ends.
    """
    if r.largest == 0 or (r.smallest >= 2.0**-14 and r.largest <= 65504.0):
        return 1.0
    exponent = math.frexp(r.largest)[1]
    return math.ldexp(1.0, max(exponent - 15, -126))


def scale_range(w: Array, format: PackedFormat) -> ScaleRange:
    """The range of group scales of w [rows, cols], floats; raises NonFiniteError."""
    return _pack(w, format, 1.0, None)


def try_pack(w: Array, format: PackedFormat, multiplier: float, out: U8) -> ScaleRange:
    """Quantise and pack w [n, cols], floats, into out (format.nbytes(n, cols) bytes).

    Blocks are independent: rows packed 16 at a time give the bytes of the whole. The result is of
    use only if `multiplier_for` the range of the whole matrix is this multiplier. Raises
    NonFiniteError.
    """
    return _pack(w, format, multiplier, out)


def pack(w: Array, format: PackedFormat, multiplier: float, out: U8) -> ScaleRange:
    """As try_pack; raises ValueError if a scale divided by the multiplier is too large for fp16."""
    r = try_pack(w, format, multiplier, out)
    if r.largest / multiplier > 65504.0:
        raise ValueError(f"a scale of {r.largest} needs a larger multiplier than {multiplier}")
    return r


def pack_matrix(w: Array, format: PackedFormat) -> Matrix:
    """Quantise and pack a whole matrix of floats."""
    multiplier = multiplier_for(scale_range(w, format))
    rows, cols = w.shape
    data = np.empty(format.nbytes(rows, cols), np.uint8)
    pack(w, format, multiplier, data)
    return format.matrix(rows, cols, (data,), multiplier)


def pack_expert(
    gate: Array, up: Array, down: Array, format: PackedFormat
) -> tuple[U8, tuple[float, float, float]]:
    """The body of an expert record and the multipliers of gate, up and down.

    gate, up [inner, hidden], down [hidden, inner], floats. Blocks of gate and up alternate, so that
    the thread that computed both can apply SwiGLU; the blocks of down follow.
    """
    if gate.shape != up.shape or down.shape != gate.shape[::-1]:
        raise ValueError(f"shapes of gate {gate.shape}, up {up.shape}, down {down.shape} disagree")
    g, u, d = (pack_matrix(w, format) for w in (gate, up, down))
    size = format.block_bytes(g.cols)
    both = np.stack([g.data.reshape(-1, size), u.data.reshape(-1, size)], axis=1)
    body = np.concatenate([both.reshape(-1), d.data])
    return body, (g.multiplier, u.multiplier, d.multiplier)


def narrow_matrix(w: Matrix) -> Matrix:
    """A matrix of int4 or int8 at int3.

    Of int4 the three high bits of each code are kept, and stand for the middle of the two weights
    that have them; int8 is cut into the same eighths of its range.
    """
    out = np.empty(INT3.nbytes(w.rows, w.cols), np.uint8)
    factor = _native.narrow(w.native, out)
    return INT3.matrix(w.rows, w.cols, (out,), w.multiplier * factor)


def narrow_expert(body: U8, format: PackedFormat, hidden: int, inner: int, out: U8) -> float:
    """The body of an expert record, and what may follow it, into out at int3, blocks in the same
    order; the multipliers of gate, up and down are to be multiplied by the result."""
    both = 2 * -(-inner // BLOCK_ROWS) * BLOCK_ROWS  # blocks of gate and up alternate
    begin = place = 0
    factor = 1.0
    for rows, cols in (both, hidden), (hidden, inner):
        end = begin + format.nbytes(rows, cols)
        stop = place + INT3.nbytes(rows, cols)
        factor = _native.narrow(
            format.matrix(rows, cols, (body[begin:end],)).native, out[place:stop]
        )
        begin, place = end, stop
    return factor


def _pack(w: Array, format: PackedFormat, multiplier: float, out: U8 | None) -> ScaleRange:
    source = float_matrix(w)
    smallest, largest, bad = _native.pack(source.native, format.code, multiplier, out)
    if bad >= 0:
        raise NonFiniteError(bad, source.cols)
    return ScaleRange(smallest, largest)

"""Packed weights: int4 or int8 in groups of 64 inputs, in the r16-v1 layout; int3 made from them.

Every kernel reads that layout in place. Weights come C-contiguous [rows, cols] as float32, float16
or bf16 (NumPy has none: its bits as uint16).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from colibri import _native
from colibri.kernels.codes import CODES
from colibri.kernels.fp8 import Fp8Matrix

Scheme = Literal["int4-gs64", "int8-gs64"]
PackedScheme = Scheme | Literal["int3-gs64"]  # int3 in memory only
Weights = npt.NDArray[Any]  # float32 | float16 | uint16 (bf16)
U8 = npt.NDArray[np.uint8]
F32 = npt.NDArray[np.float32]

GROUP = 64
BLOCK_ROWS = 16
_BITS: dict[PackedScheme, int] = {"int3-gs64": 3, "int4-gs64": 4, "int8-gs64": 8}
_FLOATS = {
    np.dtype(np.float32): CODES["f32"],
    np.dtype(np.float16): CODES["f16"],
    np.dtype(np.uint16): CODES["bf16"],
}


class NonFiniteError(ValueError):
    """A weight is infinite or not a number; `row` and `col` say where in [rows, cols]."""

    def __init__(self, index: int, cols: int) -> None:
        self.row, self.col = divmod(index, cols)
        self.cols = cols
        super().__init__(f"the weight at row {self.row}, column {self.col} is not finite")


@dataclass(frozen=True)
class ScaleRange:
    """Smallest and largest nonzero |group scale| before fp16; (inf, 0) if all are zero."""

    smallest: float
    largest: float

    def merged(self, other: ScaleRange) -> ScaleRange:
        return ScaleRange(min(self.smallest, other.smallest), max(self.largest, other.largest))


NO_SCALES = ScaleRange(math.inf, 0.0)


@dataclass(frozen=True)
class PackedMatrix:
    """[rows, cols] in row blocks of 16; `multiplier`, a power of two, applies to every scale."""

    scheme: PackedScheme
    rows: int
    cols: int
    data: U8
    multiplier: float

    def __post_init__(self) -> None:
        _check_bytes(self.data, self.scheme, self.rows, self.cols)

    @cached_property
    def native(self) -> _native.Matrix:
        sizes = self.rows, self.cols
        return _native.matrix(CODES[self.scheme], *sizes, [self.data], self.multiplier, 0)

    @property
    def nbytes(self) -> int:
        return self.data.nbytes


@dataclass(frozen=True)
class DenseMatrix:
    """[rows, cols] as float32, float16 or bf16 (uint16)."""

    data: Weights

    def __post_init__(self) -> None:
        _check_weights(self.data)

    @cached_property
    def native(self) -> _native.Matrix:
        return _native.matrix(_FLOATS[self.data.dtype], self.rows, self.cols, [self.data], 1.0, 0)

    @cached_property
    def rows(self) -> int:
        return int(self.data.shape[0])

    @cached_property
    def cols(self) -> int:
        return int(self.data.shape[1])

    @property
    def nbytes(self) -> int:
        return self.data.nbytes


Matrix = PackedMatrix | DenseMatrix | Fp8Matrix


def block_bytes(scheme: PackedScheme, cols: int) -> int:
    """Bytes of one block of 16 rows."""
    size = -(-cols // GROUP) * BLOCK_ROWS * (GROUP * _BITS[scheme] // 8 + 2)
    return size + -size % 64


def packed_bytes(scheme: PackedScheme, rows: int, cols: int) -> int:
    """Bytes of a matrix: its blocks, the last one padded to 16 rows."""
    return -(-rows // BLOCK_ROWS) * block_bytes(scheme, cols)


def check_finite(w: Weights) -> None:
    """Raises NonFiniteError; w [rows, cols]."""
    scale_range(w, "int8-gs64")


def check_fp8(w: Fp8Matrix) -> None:
    """Raises NonFiniteError for a code or a scale that gives none, or one beyond float32."""
    _decode(w, None)


def decode_fp8(w: Fp8Matrix) -> F32:
    """The float32 weights [rows, cols]; raises NonFiniteError."""
    out = np.empty((w.rows, w.cols), np.float32)
    _decode(w, out)
    return out


def scale_range(w: Weights, scheme: Scheme) -> ScaleRange:
    """The range of group scales of w [rows, cols]; raises NonFiniteError."""
    return _pack(w, scheme, 1.0, None)


def multiplier_for(r: ScaleRange) -> float:
    """The power of two that brings the scales into the range of fp16.

    1 if fp16 holds every scale as a normal number; else the largest scale lands in [2^14, 2^15),
    with no multiplier below 2^-126, where float32 itself ends.
    """
    if r.largest == 0 or (r.smallest >= 2.0**-14 and r.largest <= 65504.0):
        return 1.0
    exponent = math.frexp(r.largest)[1]
    return math.ldexp(1.0, max(exponent - 15, -126))


def try_pack(w: Weights, scheme: Scheme, multiplier: float, out: U8) -> ScaleRange:
    """Quantise and pack w [n, cols] into out (packed_bytes(scheme, n, cols) bytes).

    Blocks are independent: rows packed 16 at a time give the bytes of the whole. The result is of
    use only if `multiplier_for` the range of the whole matrix is this multiplier. Raises
    NonFiniteError.
    """
    _check_bytes(out, scheme, *w.shape)
    return _pack(w, scheme, multiplier, out)


def pack(w: Weights, scheme: Scheme, multiplier: float, out: U8) -> ScaleRange:
    """As try_pack; raises ValueError if a scale divided by the multiplier is too large for fp16."""
    r = try_pack(w, scheme, multiplier, out)
    if r.largest / multiplier > 65504.0:
        raise ValueError(f"a scale of {r.largest} needs a larger multiplier than {multiplier}")
    return r


def unpack(data: U8, scheme: PackedScheme, rows: int, cols: int, multiplier: float) -> F32:
    """The float32 values [rows, cols] that packed data stands for."""
    out = np.empty((rows, cols), np.float32)
    _native.decode(PackedMatrix(scheme, rows, cols, data, multiplier).native, out)
    return out


def pack_matrix(w: Weights, scheme: Scheme) -> PackedMatrix:
    """Quantise and pack a whole matrix."""
    multiplier = multiplier_for(scale_range(w, scheme))
    rows, cols = w.shape
    data = np.empty(packed_bytes(scheme, rows, cols), np.uint8)
    pack(w, scheme, multiplier, data)
    return PackedMatrix(scheme, rows, cols, data, multiplier)


def pack_expert(
    gate: Weights, up: Weights, down: Weights, scheme: Scheme
) -> tuple[U8, tuple[float, float, float]]:
    """The body of an expert record and the multipliers of gate, up and down.

    gate, up [inner, hidden], down [hidden, inner]. Blocks of gate and up alternate, so that the
    thread that computed both can apply SwiGLU; the blocks of down follow.
    """
    if gate.shape != up.shape or down.shape != gate.shape[::-1]:
        raise ValueError(f"shapes of gate {gate.shape}, up {up.shape}, down {down.shape} disagree")
    g, u, d = (pack_matrix(w, scheme) for w in (gate, up, down))
    size = block_bytes(scheme, g.cols)
    both = np.stack([g.data.reshape(-1, size), u.data.reshape(-1, size)], axis=1)
    body = np.concatenate([both.reshape(-1), d.data])
    return body, (g.multiplier, u.multiplier, d.multiplier)


def narrow(data: U8, scheme: Scheme, rows: int, cols: int, out: U8) -> float:
    """Packed [rows, cols] into out at int3-gs64; its multiplier is that of the data times the
    result.

    Of int4 the three high bits of each code are kept, and stand for the middle of the two weights
    that have them; int8 is cut into the same eighths of its range.
    """
    _check_bytes(out, "int3-gs64", rows, cols)
    return _native.narrow(PackedMatrix(scheme, rows, cols, data, 1.0).native, out)


def narrow_matrix(m: PackedMatrix) -> PackedMatrix:
    """A matrix of int4 or int8 at int3-gs64."""
    if m.scheme == "int3-gs64":
        raise ValueError("the matrix is int3-gs64 already")
    out = np.empty(packed_bytes("int3-gs64", m.rows, m.cols), np.uint8)
    factor = narrow(m.data, m.scheme, m.rows, m.cols, out)
    return PackedMatrix("int3-gs64", m.rows, m.cols, out, m.multiplier * factor)


def narrow_expert(body: U8, scheme: Scheme, hidden: int, inner: int, out: U8) -> float:
    """The body of an expert record, and what may follow it, into out at int3-gs64, blocks in the
    same order; the multipliers of gate, up and down are to be multiplied by the result."""
    both = 2 * -(-inner // BLOCK_ROWS) * BLOCK_ROWS  # blocks of gate and up alternate
    shapes = (both, hidden), (hidden, inner)
    begin = place = 0
    factor = 1.0
    for rows, cols in shapes:
        end = begin + packed_bytes(scheme, rows, cols)
        stop = place + packed_bytes("int3-gs64", rows, cols)
        factor = narrow(body[begin:end], scheme, rows, cols, out[place:stop])
        begin, place = end, stop
    return factor


def _check_bytes(data: U8, scheme: PackedScheme, rows: int, cols: int) -> None:
    expected = packed_bytes(scheme, rows, cols)
    if data.shape != (expected,) or data.dtype != np.uint8 or not data.flags.c_contiguous:
        raise ValueError(
            f"{scheme} [{rows}, {cols}] takes {expected} contiguous bytes, "
            f"not {data.dtype} {data.shape}"
        )


def _check_weights(w: Weights) -> None:
    if w.ndim != 2 or w.size == 0 or w.dtype not in _FLOATS or not w.flags.c_contiguous:
        raise ValueError(
            "weights must be non-empty C-contiguous [rows, cols] of float32, float16 or "
            f"uint16 (bf16), not {w.dtype} {w.shape}"
        )


def _decode(w: Fp8Matrix, out: F32 | None) -> None:
    bad = _native.decode(w.native, out)
    if bad >= 0:
        raise NonFiniteError(bad, w.cols)


def _pack(w: Weights, scheme: Scheme, multiplier: float, out: U8 | None) -> ScaleRange:
    smallest, largest, bad = _native.pack(DenseMatrix(w).native, CODES[scheme], multiplier, out)
    if bad >= 0:
        raise NonFiniteError(bad, w.shape[1])
    return ScaleRange(smallest, largest)

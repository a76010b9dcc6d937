"""Trunk tensors as the layers use them: loaded in pieces, quantised on the way if asked for.

Peak memory above the result is one piece, whatever the tensor's size.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from colibri.container.files import shown
from colibri.container.reader import Container
from colibri.container.trunkinfo import TrunkInfo
from colibri.errors import ConfigError, ContainerError
from colibri.formats.base import Matrix, NonFiniteError
from colibri.formats.floats import float_matrix
from colibri.formats.packed import (
    BLOCK_ROWS,
    INT4,
    INT8,
    NO_SCALES,
    PackedFormat,
    ScaleRange,
    multiplier_for,
    try_pack,
)
from colibri.hardware.hugepages import Slabs

MatrixBits = Literal["source", 8, 4]
EmbeddingBits = Literal[8, 4, 32]

_FORMATS: dict[int, PackedFormat] = {8: INT8, 4: INT4}
_PIECE_BYTES = 2 << 20  # each of several loading threads holds one

U8 = npt.NDArray[np.uint8]


def load_matrix(
    c: Container,
    name: str,
    bits: MatrixBits,
    *,
    rows: slice | None = None,
    slabs: Slabs | None = None,
) -> Matrix:
    """A linear's weight [rows, cols], or the given rows of it, at `bits` ("source": as it came).

    A matrix that is stored packed is returned as stored: fewer bits are not made of it, and asking
    for more is a ConfigError. Raises ContainerError for non-finite weights. slabs: where a packed
    one may lie.
    """
    info = _matrix_info(c, name)
    start, stop = _range(info, rows)
    _check_bits(info, bits)
    if info.stored_bits:
        return _stored(c, info, start, stop, slabs)
    if isinstance(bits, int) and bits in _FORMATS:
        return _quantised(c, info, _FORMATS[bits], start, stop, slabs)
    if info.scaled:
        return c.read_scaled(name, start, stop)
    return float_matrix(c.read_rows(name, start, stop))


def load_embedding(c: Container, name: str, bits: EmbeddingBits) -> Matrix:
    """Vocabulary rows [vocabulary, hidden]; 32 keeps the source's dtype."""
    _check_bits(_matrix_info(c, name), bits)
    return load_matrix(c, name, "source" if bits == 32 else bits)


def load_vector(c: Container, name: str) -> npt.NDArray[np.float32]:
    """An exact tensor (norm, bias, router...) of any shape, as float32."""
    info = c.info(name)
    if info.stored_bits:
        raise ContainerError(f"{c.path}: tensor {shown(name)}: stored packed, but must be exact")
    return to_float32(c.read_all(name))


def matrix_bytes(info: TrunkInfo, bits: MatrixBits | EmbeddingBits) -> int:
    """Bytes that load_matrix or load_embedding will hold in memory."""
    if info.stored_bits or bits not in _FORMATS or len(info.shape) != 2:
        return info.nbytes
    rows, cols = info.shape
    return _FORMATS[int(bits)].nbytes(rows, cols)


def to_float32(a: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """float32, float16 or bf16 (uint16) to float32, exactly."""
    if a.dtype == np.uint16:
        return (a.astype(np.uint32) << 16).view(np.float32)
    return a.astype(np.float32, copy=False)


def _matrix_info(c: Container, name: str) -> TrunkInfo:
    info = c.info(name)
    if len(info.shape) != 2 or 0 in info.shape:
        raise ContainerError(
            f"{c.path}: tensor {shown(name)}: shape {list(info.shape)}; a matrix was expected"
        )
    return info


def _range(info: TrunkInfo, rows: slice | None) -> tuple[int, int]:
    start, stop, step = (rows or slice(None)).indices(info.shape[0])
    if step != 1 or start >= stop:
        raise ValueError(f"{rows} of {info.name} {info.shape}: no rows")
    return start, stop


def _check_bits(info: TrunkInfo, bits: MatrixBits | EmbeddingBits) -> None:
    stored = info.stored_bits
    if stored and (bits == "source" or bits > stored):
        raise ConfigError(
            f"tensor {shown(info.name)} is stored at {stored} bits; {bits} was asked for: use "
            f"{stored}, or convert the model again with --store-trunk source"
        )


def _place(slabs: Slabs | None, nbytes: int) -> U8 | None:
    return slabs.take(nbytes) if slabs is not None and slabs.suits(nbytes) else None


def _stored(c: Container, info: TrunkInfo, start: int, stop: int, slabs: Slabs | None) -> Matrix:
    n, cols = info.shape
    format = info.format
    assert isinstance(format, PackedFormat)
    if start % BLOCK_ROWS or (stop % BLOCK_ROWS and stop != n):
        raise ContainerError(
            f"{c.path}: tensor {shown(info.name)}: stored packed in blocks of {BLOCK_ROWS} rows, "
            f"rows {start}..{stop} cannot be taken out; convert with --store-trunk source"
        )
    begin = start // BLOCK_ROWS * format.block_bytes(cols)
    nbytes = format.nbytes(stop - start, cols)
    out = c.read_packed(info.name, begin, nbytes, _place(slabs, nbytes))
    return format.matrix(stop - start, cols, (out,), info.multiplier)


def _quantised(
    c: Container, info: TrunkInfo, format: PackedFormat, start: int, stop: int, slabs: Slabs | None
) -> Matrix:
    """The bytes that quantising the whole at once would give.

    The multiplier depends on all scales. It is 1 for most matrices, so that is tried first while
    the scales are watched; else the rows are read and packed once more.
    """
    nbytes = format.nbytes(stop - start, info.shape[1])
    place = _place(slabs, nbytes)
    out = np.empty(nbytes, np.uint8) if place is None else place

    def pack_all(multiplier: float) -> ScaleRange:
        total = NO_SCALES
        for first, w, target in _pieces(c, info, format, start, stop, out):
            with naming_the_weight(f"{c.path}: tensor {shown(info.name)}", first):
                total = total.merged(try_pack(w, format, multiplier, target))
        return total

    multiplier = multiplier_for(pack_all(1.0))
    if multiplier != 1.0:
        pack_all(multiplier)
    return format.matrix(stop - start, info.shape[1], (out,), multiplier)


def _pieces(
    c: Container, info: TrunkInfo, format: PackedFormat, start: int, stop: int, out: U8
) -> Iterator[tuple[int, npt.NDArray[Any], U8]]:
    """(first row, rows, their place in out): whole row blocks of about 2 MB, the last any size.

    The rows are borrowed: they hold until the next piece is asked for.
    """
    row = info.decoded_bytes // info.shape[0]
    step = max(_PIECE_BYTES // row // BLOCK_ROWS, 1) * BLOCK_ROWS
    size = format.block_bytes(info.shape[1])
    for first in range(start, stop, step):
        w = c.borrow_rows(info.name, first, min(first + step, stop))
        begin = (first - start) // BLOCK_ROWS * size
        yield first, w, out[begin : begin + format.nbytes(*w.shape)]


@contextmanager
def naming_the_weight(where: str, first: int) -> Iterator[None]:
    """Turn the kernels' refusal of a weight into an error that names its place."""
    try:
        yield
    except NonFiniteError as e:
        raise ContainerError(
            f"{where}: the weight at row {first + e.row}, column {e.col} is not finite: "
            "the file is damaged"
        ) from None

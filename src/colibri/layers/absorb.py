"""MLA's kv_b as the two matrices that absorption multiplies by: per head, the transposed key half
and the value half."""

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from colibri.container.files import shown
from colibri.container.reader import Container
from colibri.errors import ContainerError
from colibri.formats.base import Matrix, NonFiniteError, check_finite
from colibri.formats.floats import float_matrix
from colibri.formats.packed import (
    BLOCK_ROWS,
    INT4,
    INT8,
    NO_SCALES,
    PackedFormat,
    multiplier_for,
    try_pack,
)

Weights = NDArray[Any]

_PIECE_BYTES = 2 << 20


def load_absorbed(
    container: Container,
    name: str,
    *,
    heads: int,
    nope_dim: int,
    value_dim: int,
    bits: Literal["source", 8, 4],
) -> tuple[Matrix, Matrix]:
    """kv_b [heads * (nope + value), latent] -> key [heads * latent, nope], value [heads * value,
    latent].

    A half whose rows a head do not fill blocks of 16 stays in the source's dtype at any `bits`.
    Raises ContainerError for non-finite weights.
    """
    latent = container.info(name).shape[1]
    key, value = _half(heads, latent, nope_dim, bits), _half(heads, value_dim, latent, bits)
    unfinished = {key, value}
    while unfinished:
        for first, w in _heads(container, name, heads, nope_dim + value_dim):
            try:
                if key in unfinished:
                    key.put(first, w[:, :nope_dim].transpose(0, 2, 1))
                if value in unfinished:
                    value.put(first, w[:, nope_dim:])
            except NonFiniteError:
                raise ContainerError(
                    f"{container.path}: tensor {shown(name)}: a weight of heads "
                    f"{first}..{first + len(w) - 1} is not finite: the file is damaged"
                ) from None
        unfinished = {half for half in unfinished if not half.is_finished()}
    return key.matrix(), value.matrix()


def _heads(container: Container, name: str, heads: int, rows: int) -> Iterator[tuple[int, Weights]]:
    """(first head, [some heads, rows, latent]), about 2 MB, held until the next is asked for."""
    step = max(1, _PIECE_BYTES * heads // container.info(name).nbytes)
    for first in range(0, heads, step):
        stop = min(first + step, heads)
        w = container.borrow_rows(name, first * rows, stop * rows)
        yield first, w.reshape(stop - first, rows, -1)


class _Dense:
    def __init__(self, heads: int, rows: int, cols: int) -> None:
        self._shape = (heads, rows, cols)
        self._data: Weights | None = None

    def put(self, first: int, w: Weights) -> None:
        if self._data is None:
            self._data = np.empty(self._shape, w.dtype)
        self._data[first : first + len(w)] = w
        check_finite(float_matrix(self._data[first : first + len(w)].reshape(-1, self._shape[2])))

    def is_finished(self) -> bool:
        return True

    def matrix(self) -> Matrix:
        assert self._data is not None
        return float_matrix(self._data.reshape(-1, self._shape[2]))


class _Packed:
    """Nearly every matrix needs no multiplier, and one pass tells; a second is rare."""

    def __init__(self, heads: int, rows: int, cols: int, format: PackedFormat) -> None:
        self._rows, self._cols, self._heads, self._format = rows, cols, heads, format
        self._size = format.nbytes(rows, cols)
        self._data = np.empty(heads * self._size, np.uint8)
        self._multiplier = 1.0
        self._range = NO_SCALES

    def put(self, first: int, w: Weights) -> None:
        flat = np.ascontiguousarray(w).reshape(-1, self._cols)
        out = self._data[first * self._size : (first + len(w)) * self._size]
        found = try_pack(flat, self._format, self._multiplier, out)
        self._range = self._range.merged(found)

    def is_finished(self) -> bool:
        used, self._multiplier = self._multiplier, multiplier_for(self._range)
        return used == self._multiplier

    def matrix(self) -> Matrix:
        rows = self._heads * self._rows
        return self._format.matrix(rows, self._cols, (self._data,), self._multiplier)


def _half(heads: int, rows: int, cols: int, bits: Literal["source", 8, 4]) -> _Dense | _Packed:
    if bits == "source" or rows % BLOCK_ROWS:
        return _Dense(heads, rows, cols)
    return _Packed(heads, rows, cols, INT8 if bits == 8 else INT4)

"""A format, and a matrix that is stored in one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from colibri import _native

Array = npt.NDArray[Any]
F32 = npt.NDArray[np.float32]
U8 = npt.NDArray[np.uint8]


class NonFiniteError(ValueError):
    """A weight is infinite or not a number; `row` and `col` say where in [rows, cols]."""

    def __init__(self, index: int, cols: int) -> None:
        self.row, self.col = divmod(index, cols)
        self.cols = cols
        super().__init__(f"the weight at row {self.row}, column {self.col} is not finite")


@dataclass(frozen=True)
class Format(ABC):
    """One way of storing the weights of a matrix [rows, cols]."""

    name: str
    """As manifests, plans and messages say it: "int4-gs64"."""
    code: int
    """The native module's number of it, which means nothing."""
    bits: float
    """Of a weight, its share of the scales included, in a large matrix."""
    parts: tuple[str, ...]
    """What a matrix consists of, each at an address of its own: "data", or "codes" and "scales"."""

    @abstractmethod
    def part_bytes(self, rows: int, cols: int, first: int = 0) -> tuple[int, ...]:
        """Bytes of each part of a matrix whose row 0 is row `first` of its block of scales."""

    def nbytes(self, rows: int, cols: int) -> int:
        """Of all parts together."""
        return sum(self.part_bytes(rows, cols))

    def matrix(
        self,
        rows: int,
        cols: int,
        parts: Sequence[Array],
        multiplier: float = 1.0,
        first: int = 0,
    ) -> Matrix:
        """A matrix in these arrays, which are C-contiguous. Raises ValueError where they are not,
        or do not have the bytes that [rows, cols] takes."""
        expected = self.part_bytes(rows, cols, first) if rows > 0 and cols > 0 else ()
        if tuple(part.nbytes for part in parts) != expected or not all(
            part.flags.c_contiguous for part in parts
        ):
            found = ", ".join(f"{part.dtype} {part.shape}" for part in parts)
            raise ValueError(
                f"{self.name} [{rows}, {cols}] takes "
                f"{' and '.join(map(str, expected)) or 'more than 0'} contiguous bytes, not {found}"
            )
        return Matrix(self, rows, cols, tuple(parts), multiplier, first)


@dataclass(frozen=True)
class Matrix:
    """Weights [rows, cols] in their format, where they lie.

    parts: as the format names them. multiplier: a power of two that applies to every scale of a
    packed format. first: where row 0 is in its block of scales.
    """

    format: Format
    rows: int
    cols: int
    parts: tuple[Array, ...]
    multiplier: float = 1.0
    first: int = 0

    @cached_property
    def native(self) -> _native.Matrix:
        sizes = self.rows, self.cols
        return _native.matrix(
            self.format.code, *sizes, list(self.parts), self.multiplier, self.first
        )

    @property
    def data(self) -> Array:
        """The weights, without the scales that some formats have beside them."""
        return self.parts[0]

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in self.parts)


def decode(w: Matrix) -> F32:
    """The float32 weights [rows, cols]. Raises NonFiniteError."""
    out = np.empty((w.rows, w.cols), np.float32)
    _decode(w, out)
    return out


def check_finite(w: Matrix) -> None:
    """Raises NonFiniteError for a weight that is not finite, or would not be in float32."""
    _decode(w, None)


def _decode(w: Matrix, out: F32 | None) -> None:
    bad = _native.decode(w.native, out)
    if bad >= 0:
        raise NonFiniteError(bad, w.cols)

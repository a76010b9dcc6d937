"""float32, float16 and bf16, row-major at any alignment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from colibri.formats.base import Array, Format, Matrix


@dataclass(frozen=True)
class FloatFormat(Format):
    """dtype: of the arrays; NumPy has no bf16, whose bits are uint16. stored: its safetensors
    name."""

    dtype: np.dtype[Any]
    stored: str

    def part_bytes(self, rows: int, cols: int, first: int = 0) -> tuple[int, ...]:
        return (rows * cols * self.dtype.itemsize,)


FLOAT32 = FloatFormat("f32", 0, 32, ("data",), np.dtype("<f4"), "F32")
FLOAT16 = FloatFormat("f16", 1, 16, ("data",), np.dtype("<f2"), "F16")
BFLOAT16 = FloatFormat("bf16", 2, 16, ("data",), np.dtype("<u2"), "BF16")
FLOATS = (FLOAT32, FLOAT16, BFLOAT16)
_BY_DTYPE = {format.dtype: format for format in FLOATS}


def float_matrix(data: Array) -> Matrix:
    """data [rows, cols], C-contiguous float32, float16 or bf16 (uint16). Raises ValueError."""
    format = _BY_DTYPE.get(data.dtype)
    if data.ndim != 2 or data.size == 0 or format is None or not data.flags.c_contiguous:
        raise ValueError(
            "weights must be non-empty C-contiguous [rows, cols] of float32, float16 or "
            f"uint16 (bf16), not {data.dtype} {data.shape}"
        )
    rows, cols = data.shape
    return format.matrix(rows, cols, (data,))

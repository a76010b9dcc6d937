"""e4m3 with block scales in plain NumPy: the meaning of csrc/fp8.cpp, bit for bit.

A product with such weights is that of their float32 values (`matmul_dense`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from colibri.kernels.reference.packing import to_float32

F32 = npt.NDArray[np.float32]
U8 = npt.NDArray[np.uint8]

SCALED = 128


def values(codes: U8) -> F32:
    """Of e4m3 codes of any shape: sign, 4 bits of exponent (bias 7), 3 of mantissa; no infinity."""
    exponent, mantissa = (codes >> 3 & 15).astype(np.int32), (codes & 7).astype(np.float32)
    normal = np.ldexp(1 + mantissa / 8, exponent - 7)
    size = np.where(exponent == 0, mantissa / 512, normal)
    size = np.where(codes & 127 == 127, np.nan, size)
    return np.where(codes >> 7 != 0, -size, size).astype(np.float32)


def scale_values(scales: npt.NDArray[Any]) -> F32:
    """As float32; from 2^120 on infinite."""
    wide = to_float32(scales)
    if scales.dtype == np.uint8:
        power = np.ldexp(1.0, scales.astype(np.int32) - 127)
        wide = np.where(scales == 255, np.nan, power).astype(np.float32)
    return np.where(np.abs(wide) >= 2.0**120, np.copysign(np.float32(np.inf), wide), wide)


def decode(codes: U8, scales: npt.NDArray[Any], first: int = 0) -> F32:
    """codes [rows, cols], a scale a block of 128 x 128 (row 0 is row `first` of its block) ->
    float32 [rows, cols]."""
    rows, cols = codes.shape
    down = (first + np.arange(rows)) // SCALED
    across = np.arange(cols) // SCALED
    with np.errstate(over="ignore", invalid="ignore"):
        product: F32 = values(codes) * scale_values(scales)[down[:, None], across]
    return product

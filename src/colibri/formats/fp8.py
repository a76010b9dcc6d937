"""Weights in fp8: e4m3 codes with a scale for each block of 128 x 128.

A weight is code x scale, rounded to float32. Scales are float32, bf16 (its bits as uint16), or
ue8m0 (as bytes): 2^(byte - 127). From 2^120 on a scale counts as infinite.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from colibri.formats.base import U8, Array, Format, Matrix

SCALED = 128  # rows, and inputs, that share a scale


def scale_shape(rows: int, cols: int, first: int = 0) -> tuple[int, int]:
    """Of the scales of [rows, cols], whose row 0 is row `first` of its block."""
    return -(-(first + rows) // SCALED), -(-cols // SCALED)


@dataclass(frozen=True)
class Fp8Format(Format):
    """scale_dtype: of the arrays of scales. stored: its safetensors name."""

    scale_dtype: np.dtype[Any]
    stored: str

    def part_bytes(self, rows: int, cols: int, first: int = 0) -> tuple[int, ...]:
        blocks = scale_shape(rows, cols, first)
        return rows * cols, blocks[0] * blocks[1] * self.scale_dtype.itemsize


_PARTS = "codes", "scales"
FP8 = (
    Fp8Format("fp8-e4m3-b128", 3, 8, _PARTS, np.dtype("<f4"), "F32"),
    Fp8Format("fp8-e4m3-b128-bf16", 4, 8, _PARTS, np.dtype("<u2"), "BF16"),
    Fp8Format("fp8-e4m3-b128-ue8m0", 5, 8, _PARTS, np.dtype("u1"), "F8_E8M0"),
)
_BY_DTYPE = {format.scale_dtype: format for format in FP8}


def fp8_matrix(codes: U8, scales: Array, first: int = 0) -> Matrix:
    """codes [rows, cols], scales [scale_shape] of float32, bf16 (uint16) or ue8m0 (uint8); row 0 is
    row `first` of its block."""
    rows, cols = codes.shape
    format = _BY_DTYPE.get(scales.dtype)
    expected = scale_shape(rows, cols, first)
    if format is None or codes.dtype != np.uint8 or scales.shape != expected:
        raise ValueError(
            f"fp8 [{rows}, {cols}] takes uint8 codes and scales {list(expected)} of float32, "
            f"uint16 (bf16) or uint8 (ue8m0), not {codes.dtype} and "
            f"{scales.dtype} {list(scales.shape)}"
        )
    return format.matrix(rows, cols, (codes, scales), first=first)

"""Weights in fp8: e4m3 codes with a scale for each block of 128 x 128.

A weight is code x scale, rounded to float32. Scales are float32, bf16 (its bits as uint16), or
ue8m0 (as bytes): 2^(byte - 127). From 2^120 on a scale counts as infinite.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from colibri import _native
from colibri.kernels.codes import CODES

U8 = npt.NDArray[np.uint8]
Scales = npt.NDArray[Any]  # float32 | uint16 (bf16) | uint8 (ue8m0)

_BY_SCALES = {
    np.dtype(np.float32): CODES["fp8-e4m3-b128"],
    np.dtype(np.uint16): CODES["fp8-e4m3-b128-bf16"],
    np.dtype(np.uint8): CODES["fp8-e4m3-b128-ue8m0"],
}
SCALED = 128  # rows, and inputs, that share a scale


def scale_shape(rows: int, cols: int, first: int = 0) -> tuple[int, int]:
    """Of the scales of [rows, cols], whose row 0 is row `first` of its block."""
    return -(-(first + rows) // SCALED), -(-cols // SCALED)


@dataclass(frozen=True)
class Fp8Matrix:
    """codes [rows, cols], scales [scale_shape]; its first row is row `first` of its block."""

    codes: U8
    scales: Scales
    first: int = 0

    @cached_property
    def native(self) -> _native.Matrix:
        code = _BY_SCALES.get(self.scales.dtype)
        expected = scale_shape(self.rows, self.cols, self.first)
        if code is None or self.codes.dtype != np.uint8 or self.scales.shape != expected:
            raise ValueError(
                f"fp8 [{self.rows}, {self.cols}] takes uint8 codes and scales {list(expected)} of "
                "float32, uint16 (bf16) or uint8 (ue8m0), not "
                f"{self.codes.dtype} and {self.scales.dtype} {list(self.scales.shape)}"
            )
        parts = [self.codes, self.scales]
        return _native.matrix(code, self.rows, self.cols, parts, 1.0, self.first)

    @property
    def rows(self) -> int:
        return int(self.codes.shape[0])

    @property
    def cols(self) -> int:
        return int(self.codes.shape[1])

    @property
    def nbytes(self) -> int:
        return self.codes.nbytes + self.scales.nbytes

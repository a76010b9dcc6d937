"""fp8 weights in checkpoints: F8_E4M3, and beside them NAME_scale_inv with a scale a block of 128
x 128. Each tensor says by its scales that it is one; no list of names does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from colibri.container.dtypes import CODES, FP8_DTYPES, SCALES, weight_format
from colibri.container.files import shown
from colibri.container.header import TensorInfo
from colibri.errors import ContainerError, UnsupportedModelError
from colibri.formats.fp8 import SCALED, scale_shape


def paired(tensors: Mapping[str, TensorInfo]) -> dict[str, TensorInfo]:
    """Weights with the scales that lie beside them, which are no tensors of their own any more.

    Raises ContainerError for scales without such weights, or of another shape.
    """
    found = dict(tensors)
    for name, scales in tensors.items():
        if name.endswith(SCALES):
            weights = _weights_of(scales, tensors.get(name.removesuffix(SCALES)))
            found[weights.name] = replace(weights, scales=scales)
            del found[name]
    return found


@dataclass(frozen=True)
class ScaleGrid:
    """The scales of a matrix in a file; its row 0 is row `first` of its block."""

    file: Path
    offset: int
    rows: int
    cols: int
    dtype: str  # safetensors name
    first: int = 0

    @property
    def nbytes(self) -> int:
        return self.rows * self._row_bytes

    @property
    def _row_bytes(self) -> int:
        return self.cols * FP8_DTYPES[self.dtype].scale_dtype.itemsize

    def of_rows(self, start: int, stop: int) -> ScaleGrid:
        """Of rows start..stop of the matrix."""
        begin, end = (self.first + start) // SCALED, -(-(self.first + stop) // SCALED)
        return replace(
            self,
            offset=self.offset + begin * self._row_bytes,
            rows=end - begin,
            first=(self.first + start) % SCALED,
        )

    def array(self, data: npt.NDArray[np.uint8]) -> npt.NDArray[Any]:
        """The bytes at the offset as scales [rows, cols]."""
        dtype = FP8_DTYPES[self.dtype].scale_dtype
        if data.ctypes.data % dtype.itemsize:
            data = data.copy()
        return data.view(dtype).reshape(self.rows, self.cols)


def scale_grid(info: TensorInfo, matrix: int = 0) -> ScaleGrid:
    """Of a matrix [rows, cols], or of one of those in a tensor [matrices, rows, cols]."""
    assert info.scales is not None
    rows, cols = info.scales.shape[-2:]
    grid = ScaleGrid(info.scales.file, info.scales.offset, rows, cols, info.scales.dtype)
    return replace(grid, offset=grid.offset + matrix * grid.nbytes)


def check_quantization(config: Mapping[str, Any]) -> None:
    """What config.json says of fp8 weights. Raises UnsupportedModelError for blocks of another
    size, whose scales might by chance have the right shape."""
    for level in (config, config.get("text_config")):
        said = level.get("quantization_config") if isinstance(level, Mapping) else None
        if not isinstance(said, Mapping):
            continue
        block = said.get("weight_block_size")
        if block is not None and block != [SCALED, SCALED]:
            raise UnsupportedModelError(
                f"config.json: quantization_config.weight_block_size is {ascii(block)[:40]}; fp8 "
                f"weights are supported in blocks of [{SCALED}, {SCALED}]"
            )


def _weights_of(scales: TensorInfo, weights: TensorInfo | None) -> TensorInfo:
    where = f"{scales.file}: tensor {shown(scales.name)}"
    base = shown(scales.name.removesuffix(SCALES))
    if weights is None:
        raise ContainerError(f"{where}: scales of {base}, which is missing; download it again")
    if weights.dtype != CODES:
        weight_format(weights)  # where it is not known at all, that is the news
        raise ContainerError(f"{where}: scales of {base}, which is {weights.dtype}, not {CODES}")
    if scales.dtype not in FP8_DTYPES:
        known = ", ".join(FP8_DTYPES)
        raise UnsupportedModelError(
            f"{where}: scales of {scales.dtype} are not supported; known are {known}"
        )
    if len(weights.shape) not in (2, 3):
        raise ContainerError(f"{where}: scales of {base}, whose shape is {list(weights.shape)}")
    expected = (*weights.shape[:-2], *scale_shape(*weights.shape[-2:]))
    if scales.shape != expected:
        raise ContainerError(
            f"{where}: shape {list(scales.shape)}, but {base} {list(weights.shape)} has "
            f"{list(expected)} blocks of {SCALED} x {SCALED}"
        )
    return weights

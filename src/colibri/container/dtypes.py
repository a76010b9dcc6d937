"""What weights in a checkpoint may be: floats, or fp8 with their scales beside them."""

from __future__ import annotations

from colibri.container.files import shown
from colibri.container.header import TensorInfo
from colibri.errors import ContainerError, UnsupportedModelError
from colibri.formats.base import Format
from colibri.formats.floats import FLOATS
from colibri.formats.fp8 import FP8

# By the dtype of the weights, in safetensors' names.
FLOAT_DTYPES = {format.stored: format for format in FLOATS}

CODES = "F8_E4M3"
SCALES = "_scale_inv"  # what the name of the scales adds to that of their weights
# By the dtype of the scales.
FP8_DTYPES = {format.stored: format for format in FP8}


def weight_format(info: TensorInfo) -> Format:
    """bf16, f16, f32 or fp8. Others are refused by name, and so is fp8 without its scales."""
    if info.dtype == CODES:
        return _fp8_format(info)
    if info.dtype not in FLOAT_DTYPES:
        raise UnsupportedModelError(
            f"{info.file}: tensor {shown(info.name)}: {info.dtype} weights are not supported; "
            "use a BF16, F16, F32 or block-scaled F8_E4M3 release of the model"
        )
    return FLOAT_DTYPES[info.dtype]


def _fp8_format(info: TensorInfo) -> Format:
    if info.scales is None:
        raise ContainerError(
            f"{info.file}: tensor {shown(info.name)}: {CODES}, but its scales "
            f"{shown(info.name + SCALES)} are missing: the download is incomplete, or the model is "
            "quantised in a way that is not supported"
        )
    return FP8_DTYPES[info.scales.dtype]

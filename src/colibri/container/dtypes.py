"""What weights in a checkpoint may be: floats, or fp8 with their scales beside them."""

from __future__ import annotations

from typing import Literal

from colibri.container.files import shown
from colibri.container.header import TensorInfo
from colibri.errors import ContainerError, UnsupportedModelError
from colibri.kernels.moe import Fp8Scheme

FloatDtype = Literal["bf16", "f16", "f32"]
FLOAT_DTYPES: dict[str, FloatDtype] = {"BF16": "bf16", "F16": "f16", "F32": "f32"}

CODES = "F8_E4M3"
SCALES = "_scale_inv"  # what the name of the scales adds to that of their weights
# By the dtype of the scales.
FP8_DTYPES: dict[str, Fp8Scheme] = {
    "F32": "fp8-e4m3-b128",
    "BF16": "fp8-e4m3-b128-bf16",
    "F8_E8M0": "fp8-e4m3-b128-ue8m0",
}


def weight_dtype(info: TensorInfo) -> FloatDtype | Fp8Scheme:
    """bf16, f16, f32 or fp8. Others are refused by name, and so is fp8 without its scales."""
    if info.dtype == CODES:
        return _fp8_dtype(info)
    if info.dtype not in FLOAT_DTYPES:
        raise UnsupportedModelError(
            f"{info.file}: tensor {shown(info.name)}: {info.dtype} weights are not supported; "
            "use a BF16, F16, F32 or block-scaled F8_E4M3 release of the model"
        )
    return FLOAT_DTYPES[info.dtype]


def _fp8_dtype(info: TensorInfo) -> Fp8Scheme:
    if info.scales is None:
        raise ContainerError(
            f"{info.file}: tensor {shown(info.name)}: {CODES}, but its scales "
            f"{shown(info.name + SCALES)} are missing: the download is incomplete, or the model is "
            "quantised in a way that is not supported"
        )
    return FP8_DTYPES[info.scales.dtype]

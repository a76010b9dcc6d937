"""The native module's number of each format that weights are stored in (csrc/layout.h)."""

from collections.abc import Mapping

_IN_ORDER = (
    "f32",
    "f16",
    "bf16",
    "fp8-e4m3-b128",
    "fp8-e4m3-b128-bf16",
    "fp8-e4m3-b128-ue8m0",
    "int3-gs64",
    "int4-gs64",
    "int8-gs64",
)
CODES: Mapping[str, int] = {name: code for code, name in enumerate(_IN_ORDER)}

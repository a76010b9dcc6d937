"""Checkpoints whose weights a method has quantised that is not read here: named, with what to take
instead."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from colibri.container.files import shown
from colibri.container.jsonfile import read_json
from colibri.errors import UnsupportedModelError

_NAMES = {
    "awq": "AWQ",
    "gptq": "GPTQ",
    "bitsandbytes": "bitsandbytes",
    "modelopt": "NVIDIA's ModelOpt",
    "compressed-tensors": "compressed-tensors",
    "mxfp4": "MXFP4",
    "hqq": "HQQ",
    "aqlm": "AQLM",
}
_DETAILS = ("quant_algo", "format", "fmt")  # which of a method's forms
# Files of a method's own, beside a config.json that may say nothing: (name, method).
_FILES = (
    ("hf_quant_config.json", "modelopt"),
    ("quantize_config.json", "gptq"),
    ("quant_config.json", "awq"),
)


def check_method(path: Path, config: Mapping[str, Any], names: Collection[str]) -> None:
    """Raises UnsupportedModelError for any method but fp8."""
    for level in (config, config.get("text_config")):
        said = level.get("quantization_config") if isinstance(level, Mapping) else None
        if isinstance(said, Mapping) and said:
            if said.get("quant_method") != "fp8":
                raise _refusal(path / "config.json", said, said.get("quant_method"))
            return
    for name, method in _FILES:
        if name in names:
            said = read_json(path / name)
            raise _refusal(path / name, said.get("quantization", said), method)


def _refusal(path: Path, said: object, method: object) -> UnsupportedModelError:
    given = said if isinstance(said, Mapping) else {}
    detail = next((given[key] for key in _DETAILS if isinstance(given.get(key), str)), None)
    name = _NAMES.get(str(method).lower(), shown(str(method)))
    return UnsupportedModelError(
        f"{path}: the weights are quantised by {name}{f' ({shown(detail)})' if detail else ''}, "
        "which is not supported; take the model's release in BF16, F16, F32 or block-scaled fp8, "
        "which `coli convert` makes int4 or int8 of"
    )

"""Families by HF model_type; each is imported when it is asked for."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from colibri.errors import ConfigError, UnsupportedModelError
from colibri.models.family import Family

SUPPORTED = (
    "glm5_next",
    "glm_moe_dsa",
    "mixtral",
    "olmoe",
    "qwen2_moe",
    "qwen3_5_moe",
    "qwen3_moe",
)

_ALIASES = {"qwen3_5_moe_text": "qwen3_5_moe"}  # what a text-only checkpoint calls itself


def family_for(config: Mapping[str, Any]) -> Family:
    """The family that config.json names in `model_type`. Raises UnsupportedModelError for one that
    does not run."""
    name = config.get("model_type")
    if not isinstance(name, str):
        raise ConfigError(f"config.json: model_type is {name!r}; it must name the model's family")
    name = _ALIASES.get(name, name)
    if name not in SUPPORTED:
        raise UnsupportedModelError(
            f"config.json: model_type = {name!r} is not supported; "
            f"supported are {', '.join(SUPPORTED)}"
        )
    family: Family = import_module(f"colibri.models.{name}").FAMILY
    return family

"""Families by HF model_type; each is imported when it is asked for."""

from collections.abc import Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

from colibri.errors import ConfigError, UnsupportedModelError
from colibri.models.family import Family, Outline

SUPPORTED = ("glm5_next", "glm_moe_dsa", "mixtral", "olmoe", "qwen2_moe", "qwen3_5_moe", "qwen3_moe")
OUTLINED = ()

_ALIASES = {"qwen3_5_moe_text": "qwen3_5_moe"}  # what a text-only checkpoint calls itself


def family_for(config: Mapping[str, Any]) -> Family:
    """The family that config.json names in `model_type`. Raises UnsupportedModelError for one that
    does not run."""
    name = _name(config)
    if name in OUTLINED:
        raise UnsupportedModelError(
            f"config.json: model_type = {name!r} cannot be run yet, only planned (coli plan); "
            f"those that run are {', '.join(SUPPORTED)}"
        )
    family: Family = _module(name).FAMILY
    return family


def outline_for(config: Mapping[str, Any]) -> Outline:
    """The same for what needs no layers: also of a family that does not run yet."""
    outline: Outline = _module(_name(config)).FAMILY
    return outline


def _name(config: Mapping[str, Any]) -> str:
    name = config.get("model_type")
    if not isinstance(name, str):
        raise ConfigError(f"config.json: model_type is {name!r}; it must name the model's family")
    name = _ALIASES.get(name, name)
    if name not in SUPPORTED + OUTLINED:
        raise UnsupportedModelError(
            f"config.json: model_type = {name!r} is not supported; "
            f"supported are {', '.join(SUPPORTED)}"
        )
    return name


def _module(name: str) -> ModuleType:
    return import_module(f"colibri.models.{name}")

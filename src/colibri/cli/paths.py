"""A model directory as the user named it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from colibri.container.files import list_names
from colibri.container.foreign import refuse_foreign
from colibri.container.hubcache import located
from colibri.container.jsonfile import read_json
from colibri.errors import ConfigError, ContainerError


def model_path(named: str | None) -> Path:
    """The model's directory, proven to be one; without a name the embedded model's."""
    if named is not None:
        path = located(named, os.environ)
        _check(path)
        return path
    from colibri.llm import embedded_model

    if not embedded_model().is_dir():
        raise ConfigError(
            "this installation has no embedded model; name one with --model or COLI_MODEL"
        )
    return embedded_model()


def read_config(directory: Path) -> dict[str, Any]:
    _check(directory)
    return read_json(directory / "config.json")


def _check(directory: Path) -> None:
    if directory.suffix.lower() == ".gguf":
        refuse_foreign(directory.parent, [directory.name])
    names = list_names(directory)
    if "config.json" not in names:
        refuse_foreign(directory, names)
        raise ContainerError(
            f"{directory}: holds no config.json, so it is not the directory of a model"
        )

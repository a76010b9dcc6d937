"""A model directory as the user named it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from colibri.container.foreign import check_is_model
from colibri.container.hubcache import located
from colibri.container.jsonfile import read_json
from colibri.errors import ConfigError


def model_path(named: str | None) -> Path:
    """The model's directory, proven to be one; without a name the embedded model's."""
    if named is not None:
        path = located(named, os.environ)
        check_is_model(path)
        return path
    from colibri.llm import embedded_model

    if not embedded_model().is_dir():
        raise ConfigError(
            "this installation has no embedded model; name one with --model or COLI_MODEL"
        )
    return embedded_model()


def read_config(directory: Path) -> dict[str, Any]:
    check_is_model(directory)
    return read_json(directory / "config.json")

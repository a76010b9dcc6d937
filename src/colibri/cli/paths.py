"""A model directory as the user named it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from colibri.container.jsonfile import read_json
from colibri.errors import ConfigError, ContainerError


def read_config(directory: Path) -> dict[str, Any]:
    """config.json of a model directory; a path that cannot be one is said to be what it is."""
    check_directory(directory)
    path = directory / "config.json"
    if not path.exists():
        raise ContainerError(f"{directory}: holds no config.json, so it is no model directory")
    return read_json(path)


def check_directory(directory: Path) -> None:
    try:
        if directory.is_dir():
            next(directory.iterdir(), None)
            return
        exists = directory.exists()
    except OSError as error:
        raise ConfigError(f"{directory}: cannot be read: {error.strerror}") from None
    if exists:
        raise ConfigError(f"{directory}: is a file; name the directory of the model")
    raise ConfigError(f"{directory}: no such directory")


def embedded_model() -> Path:
    import colibri

    path = Path(colibri.__file__).parent / "demo"
    if not (path / "config.json").is_file():
        raise ConfigError(
            "this installation has no embedded model; give one: --model DIR or COLI_MODEL"
        )
    return path

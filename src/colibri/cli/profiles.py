"""The profile that `coli tune` left for a model, taken as defaults below file, variables, flags."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from colibri.cli import terminal
from colibri.config import EngineConfig, default_file
from colibri.container.hubcache import located
from colibri.errors import ColibriError


def with_profile(config: EngineConfig, flags: Mapping[str, Any]) -> EngineConfig:
    """With the profile's settings where nothing else was asked for; `profile` is then its file.

    A profile that was asked for by name must fit; one that is found and does not is a warning.
    """
    if config.profile == "off":
        return config
    others = [Path(name) for name in config.model_dirs]
    model = _model(config)
    if config.profile != "auto":
        return _merged(Path(config.profile), model, others, flags)
    try:
        found = _found(model, others)
        return config if found is None else _merged(found, model, others, flags)
    except ColibriError as error:
        terminal.say(f"coli: warning: no profile is used: {error}")
        return config


def _model(config: EngineConfig) -> Path:
    if config.model is not None:
        return located(config.model, os.environ)
    from colibri.llm import embedded_model

    return embedded_model()


def _found(model: Path, others: Sequence[Path]) -> Path | None:
    """This machine's profile of the model, if there is one. What is no model has none."""
    if not os.path.isfile(model / "config.json"):
        return None
    from colibri.planner.profile import profile_path

    path = profile_path(model, os.environ, others)
    return path if path is not None and path.is_file() else None


def _merged(
    path: Path, model: Path, others: Sequence[Path], flags: Mapping[str, Any]
) -> EngineConfig:
    from colibri.planner.profile import load

    settings = load(path, model, others).settings
    return EngineConfig.resolve(
        environ=os.environ,
        file=default_file(os.environ),
        defaults=settings,
        **{**flags, "profile": str(path)},
    )

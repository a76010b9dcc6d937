"""/set and /think: what is asked for of the next answers."""

from __future__ import annotations

from typing import Any

import click

from colibri.cli.options import SAMPLING
from colibri.cli.talk.backend import Wishes
from colibri.errors import ConfigError

FIELDS = tuple(name for name, _, _ in SAMPLING)
DEFAULT = "default"
_KINDS: dict[str, click.ParamType[Any]] = {name: kind for name, kind, _ in SAMPLING}


def describe(wishes: Wishes) -> list[str]:
    return [f"{name:<20}{wishes.given.get(name, DEFAULT)}" for name in FIELDS]


def change(wishes: Wishes, name: str, value: str) -> None:
    """Raises ConfigError, and then nothing has changed."""
    if name not in FIELDS:
        raise ConfigError(f"/set: no setting {name[:40]!r}; known are {', '.join(FIELDS)}")
    given = {field: known for field, known in wishes.given.items() if field != name}
    if value != DEFAULT:
        try:
            given[name] = _KINDS[name].convert(value, None, None)
        except click.BadParameter as error:
            raise ConfigError(f"/set {name}: {error.message}") from None
        from colibri.sampling import SamplingParams

        SamplingParams(**given)
    wishes.given = given


def levels() -> tuple[str, ...]:
    from colibri.text.effort import EFFORTS

    return ("on", "off", *EFFORTS, DEFAULT)


def think(wishes: Wishes, word: str) -> None:
    """Raises ConfigError, and then nothing has changed."""
    if word not in levels():
        raise ConfigError(f"/think: {word[:40]!r} is none of {', '.join(levels())}")
    options = wishes.options.copy()
    options.pop("thinking", None)
    options.pop("reasoning_effort", None)
    if word in ("on", "off"):
        options["thinking"] = word == "on"
    elif word != DEFAULT:
        options["reasoning_effort"] = word
    wishes.options = options


def thinking(wishes: Wishes) -> str:
    options = wishes.options
    if (effort := options.get("reasoning_effort")) is not None:
        return effort
    return {True: "on", False: "off", None: DEFAULT}[options.get("thinking")]

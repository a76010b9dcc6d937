"""The named router strategies and their parameters, as --router has them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from colibri.config.sizes import shown
from colibri.errors import ConfigError

ROUTER_FORM = (
    "own, cache-aware[:J=2,M=12], gumbel[:temperature=0.5,seed=0], "
    "soft[:temperature=1,seed=0] or int8-table"
)


@dataclass(frozen=True)
class _Parameter:
    name: str
    default: float
    low: float
    high: float
    whole: bool

    def read(self, text: str) -> float:
        try:
            value: float = int(text) if self.whole else float(text)
        except ValueError:
            value = math.nan
        if not self.low <= value <= self.high:
            kind = "whole number" if self.whole else "number"
            raise ConfigError(
                f"{self.name}={text[:40]}: give a {kind} from {self.low:g} to {self.high:g}"
            )
        return value


_SEED = _Parameter("seed", 0, 0, 2**32 - 1, whole=True)
_STRATEGIES: dict[str, tuple[_Parameter, ...]] = {
    "own": (),
    "cache-aware": (_Parameter("J", 2, 0, 1024, True), _Parameter("M", 12, 1, 1024, True)),
    "gumbel": (_Parameter("temperature", 0.5, 0.001, 10, whole=False), _SEED),
    "soft": (_Parameter("temperature", 1.0, 0.001, 10, whole=False), _SEED),
    "int8-table": (),
}


@dataclass(frozen=True)
class RouterWish:
    """A strategy by name, with all its parameters."""

    name: str
    values: Mapping[str, float]

    def __getitem__(self, parameter: str) -> float:
        return self.values[parameter]

    def whole(self, parameter: str) -> int:
        return int(self.values[parameter])


def parse_router(text: str) -> RouterWish:
    """NAME or NAME:PARAMETER=VALUE,...; upper and lower case are the same. Raises ConfigError."""
    name, colon, rest = text.strip().partition(":")
    name = name.lower()
    if name not in _STRATEGIES:
        raise ConfigError(f"{shown(text)} is no router; give {ROUTER_FORM}")
    known = {parameter.name.lower(): parameter for parameter in _STRATEGIES[name]}
    values = {parameter.name: parameter.default for parameter in known.values()}
    given: set[str] = set()
    for part in rest.split(",") if colon else []:
        key, _, value = part.partition("=")
        parameter = known.get(key.strip().lower())
        if parameter is None:
            takes = ", ".join(p.name for p in known.values()) or "no parameters"
            raise ConfigError(f"{shown(part)}: the router {name} takes {takes}")
        if parameter.name in given:
            raise ConfigError(f"{shown(text)}: {parameter.name} is given twice")
        given.add(parameter.name)
        values[parameter.name] = parameter.read(value.strip())
    if name == "cache-aware" and values["J"] > values["M"]:
        raise ConfigError(
            f"{shown(text)}: of the M best experts the J best are kept, so J is at most M"
        )
    return RouterWish(name, values)


def router_text(value: object) -> str:
    """A valid text for parse_router, as it was given."""
    if not isinstance(value, str):
        raise ConfigError(f"{shown(value)} is no router; give {ROUTER_FORM}")
    parse_router(value)
    return value.strip()

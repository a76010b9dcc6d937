"""What a value may be: each reads one kind of value, or raises ConfigError with what it may be."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable
from typing import cast, get_args

from colibri.config.choices import AutoOnOff
from colibri.config.sizes import LARGEST_BYTES, bad_size, parse_bytes, shown
from colibri.errors import ConfigError

_WHOLE = re.compile(r"[0-9]{1,15}", re.ASCII)


def path(value: object) -> str:
    text = os.fspath(value) if isinstance(value, str | os.PathLike) else ""
    if not isinstance(text, str) or not text or "\0" in text:
        raise ConfigError(f"{shown(value)} is not a path")
    return os.path.expanduser(text)  # no shell does it for a variable, a file or --model=~/x


def parts(value: object, separators: str) -> list[object]:
    """A list, or a text with the first of the separators that occurs between its parts. An empty
    part is a slip, as of a variable that is not set, and never nothing."""
    if isinstance(value, str):
        found = next((s for s in separators if s in value), separators[0])
        value = [part.strip() for part in value.split(found)]
    listed = list(value) if isinstance(value, list | tuple) else [value]
    if "" in listed:
        empty = "is empty" if len(listed) == 1 else f"has an empty part: {shown(value)}"
        raise ConfigError(f"{empty}; leave it out")
    return listed


def paths(separators: str) -> Callable[[object], tuple[str, ...]]:
    """Several paths."""

    def parse(value: object) -> tuple[str, ...]:
        return tuple(path(part) for part in parts(value, separators))

    return parse


def weights(value: object) -> tuple[float, ...] | str:
    if isinstance(value, str):
        if value.strip().lower() == "auto":
            return "auto"
        value = value.split(",")
    try:
        weights = tuple(float(part) for part in value)  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        weights = ()
    if not weights or not all(0 <= weight <= 1e6 for weight in weights) or not any(weights):
        raise ConfigError(f"{shown(value)} is not auto or weights like 2,1 (0 to 1000000)")
    return weights


def memory(value: object) -> str:
    if isinstance(value, str) and value.strip().lower() == "auto":
        return "auto"
    if not isinstance(value, str):
        number = isinstance(value, int | float) and not isinstance(value, bool)
        raise bad_size(value, "has no unit" if number else "is not a size")
    parse_bytes(value, total=LARGEST_BYTES)
    return value.strip()


def pin(value: object) -> str:
    word = "" if isinstance(value, bool) else str(value).strip().lower()
    if word in ("auto", "all", "0"):
        return word
    try:
        return memory(value)
    except ConfigError:
        raise ConfigError(
            f"{shown(value)} is not auto, 0, all, a size like 2GB or a share like 50%"
        ) from None


def auto_off_or_path(value: object) -> str:
    word = value.strip().lower() if isinstance(value, str) else ""
    return word if word in ("auto", "off") else path(value)


def whole(low: int, high: int) -> Callable[[object], int]:
    def parse(value: object) -> int:
        text = str(value).strip()
        # A digit string is bounded before int() sees it: int() of megabytes of digits is slow.
        good = not isinstance(value, bool) and _WHOLE.fullmatch(text) is not None
        if not good or not low <= int(text) <= high:
            raise ConfigError(f"{shown(value)} is not a whole number from {low} to {high}")
        return int(text)

    return parse


def auto_off_or(parse: Callable[[object], int]) -> Callable[[object], int | str]:
    either = auto_or(parse)

    def parse_any(value: object) -> int | str:
        if isinstance(value, str) and value.strip().lower() == "off":
            return "off"
        try:
            return either(value)
        except ConfigError as error:
            raise ConfigError(f"{error} or off") from None

    return parse_any


def auto_or(parse: Callable[[object], int]) -> Callable[[object], int | str]:
    def parse_either(value: object) -> int | str:
        try:
            return parse(value)
        except ConfigError as error:
            if isinstance(value, str) and value.strip().lower() == "auto":
                return "auto"
            raise ConfigError(f"{error}, or auto") from None

    return parse_either


def choice(*choices: str | int) -> Callable[[object], str | int]:
    by_text = {str(choice): choice for choice in choices}

    def parse(value: object) -> str | int:
        key = str(value).strip().lower()
        if isinstance(value, bool) or key not in by_text:
            raise ConfigError(f"{shown(value)} is not one of {', '.join(by_text)}")
        return by_text[key]

    return parse


def numa(value: object) -> str:
    """COLI_NUMA is 1 or 0 for users of the C engine."""
    words = {"1": "on", "0": "off"}
    return str(choice(*get_args(AutoOnOff))(words.get(str(value).strip(), value)))


def share(value: object) -> float:
    """A number above 0, up to 1."""
    try:
        number = math.nan if isinstance(value, bool) else float(cast(str, value))
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not 0 < number <= 1:
        raise ConfigError(f"{shown(value)} is not a number above 0, up to 1")
    return number

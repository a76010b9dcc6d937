"""Sizes as people write them."""

from __future__ import annotations

import re
from fractions import Fraction

from colibri.errors import ConfigError

SIZE_FORMS = "6GB (10^9 bytes), 5.5GiB (2^30), 800MB, 750MiB, 60% (of this machine's memory)"
LARGEST_BYTES = 1 << 50
_UNITS = {"B": 1} | {
    prefix + suffix: base**power
    for power, prefix in enumerate("KMGT", start=1)
    for suffix, base in (("B", 1000), ("IB", 1024))
}
_SIZE = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,18})?)\s*(%|[KMGT]?I?B)", re.ASCII)


def shown(value: object) -> str:
    """A value as an error message quotes it: on one line, never longer than a glance."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def parse_bytes(text: str | int, *, total: int | None = None) -> int:
    """A number of bytes from "6GB", "5.5GiB", "800MB", "1000000B" or "60%" of `total`.

    An int is taken as bytes. Zero, negative, absurd (> 2^50) and unreadable values raise
    ConfigError with the valid forms.
    """
    if isinstance(text, bool) or not isinstance(text, str | int):
        raise bad_size(text, "is not a size")
    size = text if isinstance(text, int) else _parse_size(text, total)
    if size <= 0:
        raise bad_size(text, "is not a positive size")
    if size > LARGEST_BYTES:
        raise bad_size(text, "is more than any machine has")
    return size


def parse_flag(flag: str, text: str, *, total: int | None = None) -> int:
    """The same of a flag, which an error names."""
    try:
        return parse_bytes(text, total=total)
    except ConfigError as error:
        raise ConfigError(f"{flag}: {error}") from None


def _parse_size(text: str, total: int | None) -> int:
    stripped = text.strip()
    match = _SIZE.fullmatch(stripped.upper()) if stripped.isascii() else None
    if match is None:
        bare = re.fullmatch(r"[0-9.]{1,20}", stripped) is not None
        raise bad_size(text, "has no unit" if bare else "is not a size")
    number, unit = Fraction(match[1]), match[2]
    if unit != "%":
        return int(number * _UNITS[unit])
    if number > 100:
        raise bad_size(text, "is more than the whole")
    if total is None:
        raise bad_size(text, "is a share, and the whole is not known here")
    return int(number * total / 100)


def bad_size(value: object, defect: str) -> ConfigError:
    return ConfigError(f"{shown(value)} {defect}; write e.g. {SIZE_FORMS}")

"""What there is to try."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from colibri.experts.cache.policies import POLICIES
from colibri.lab.tune.trial import Sample

READERS = (1, 2, 4, 8, 16)
CACHE_SHARES = (75, 50)  # percent of the plan's slots: the page cache may use the rest better
LOOKAHEAD = ("off", "auto", 1, 2)


@dataclass(frozen=True)
class Knob:
    """A setting and the values to try for it; `streams`: of use only where experts are read."""

    field: str
    values: tuple[Any, ...]
    streams: bool = True


def knobs(cores: int, cpus: int) -> tuple[Knob, ...]:
    """In the order in which they are tried: those that others depend on come first."""
    threads = {cores, max(1, cores // 2), cpus}
    return (
        Knob("threads", tuple(sorted(threads)), streams=False),
        Knob("direct", ("on", "off")),
        Knob("readers", READERS),
        Knob("cache_share", CACHE_SHARES),
        Knob("policy", tuple(POLICIES)),
        Knob("lookahead", LOOKAHEAD),
    )


def worth_trying(
    all_knobs: tuple[Knob, ...], base: Sample, given: Collection[str]
) -> tuple[Knob, ...]:
    """Without what the user has decided, and without what has no effect where nothing is read."""
    return tuple(
        knob
        for knob in all_knobs
        if knob.field not in given and not (knob.streams and base.resident)
    )

"""The executor's counters at one moment, and between two."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from colibri.experts.base import Guesses
from colibri.experts.streamed import StreamedExperts

_NUMBERS = (
    "bytes_read",
    "read_seconds",
    "wait_seconds",
    "prefetch_reads",
    "prefetch_useful",
    "prefetch_wasted_bytes",
    "prefetch_expired",
)


@dataclass(frozen=True)
class Counters:
    """As in ExpertStats, and hits and misses by layer."""

    bytes_read: int = 0
    read_seconds: float = 0.0  # disk service, summed over the readers
    wait_seconds: float = 0.0
    prefetch_reads: int = 0
    prefetch_useful: int = 0
    prefetch_wasted_bytes: int = 0
    prefetch_expired: int = 0
    guesses: Guesses = field(default_factory=Guesses)
    layers: Mapping[int, tuple[int, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, experts: StreamedExperts) -> Self:
        stats = experts.stats()
        numbers = {name: getattr(stats, name) for name in _NUMBERS}
        return cls(**numbers, guesses=stats.guesses, layers=experts.layer_counts())

    def since(self, before: Counters) -> Counters:
        numbers = {name: getattr(self, name) - getattr(before, name) for name in _NUMBERS}
        mine, theirs = self.guesses, before.guesses
        guesses = Guesses(
            mine.missing - theirs.missing,
            mine.guessed - theirs.guessed,
            mine.right - theirs.right,
        )
        return Counters(**numbers, guesses=guesses, layers=_since(self.layers, before.layers))

    def plus(self, other: Counters) -> Counters:
        numbers = {name: getattr(self, name) + getattr(other, name) for name in _NUMBERS}
        mine, theirs = self.guesses, other.guesses
        guesses = Guesses(
            mine.missing + theirs.missing,
            mine.guessed + theirs.guessed,
            mine.right + theirs.right,
        )
        return Counters(**numbers, guesses=guesses, layers=_plus(self.layers, other.layers))


def _since(
    after: Mapping[int, tuple[int, int]], before: Mapping[int, tuple[int, int]]
) -> dict[int, tuple[int, int]]:
    found = {}
    for layer, (hits, misses) in after.items():
        old_hits, old_misses = before.get(layer, (0, 0))
        found[layer] = (hits - old_hits, misses - old_misses)
    return found


def _plus(
    one: Mapping[int, tuple[int, int]], other: Mapping[int, tuple[int, int]]
) -> dict[int, tuple[int, int]]:
    found = dict(one)
    for layer, (hits, misses) in other.items():
        old_hits, old_misses = found.get(layer, (0, 0))
        found[layer] = (old_hits + hits, old_misses + misses)
    return found

"""What a replay found: the rows of its table, and of --json."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from colibri.experts.cache.policies.auto import ratio
from colibri.lab.replay.caches import Tally
from colibri.lab.replay.capacity import Capacity
from colibri.routing.trace import LayerFacts

VERSION = 1


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One cache's result; of hits and misses `decode_` are those of steps of decode."""

    policy: str
    resolved: str  # what auto stands for here; else the policy
    scope: str
    capacity: str  # as given
    slots: dict[int, int]  # by layer
    ratio: float  # mean slots a layer / experts a token
    pinned: int
    hits: int
    misses: int
    decode_hits: int
    decode_misses: int
    evictions: int
    reads: int
    bytes_read: int
    guesses_useful: int
    guesses_wasted_bytes: int
    layers: dict[int, tuple[int, int]]  # hits and misses

    @property
    def hit_rate(self) -> float:
        return _share(self.hits, self.misses)

    @property
    def decode_hit_rate(self) -> float:
        return _share(self.decode_hits, self.decode_misses)


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    version: int = VERSION
    model: str
    experts_per_token: int
    calls: int  # of layers, counted
    tokens: int  # steps of decode, counted
    rows: list[Row]


def row_of(
    layers: Sequence[LayerFacts],
    tally: Tally,
    capacity: Capacity,
    policy: str,
    resolved: str,
    scope: str,
    pinned: int = 0,
) -> Row:
    slots, total = capacity.slots(layers), tally.total
    return Row(
        policy=policy,
        resolved=resolved,
        scope=scope,
        capacity=capacity.text,
        slots=dict(slots),
        ratio=ratio(slots, sum(n.k for n in layers)),
        pinned=pinned,
        hits=total.hits,
        misses=total.misses,
        decode_hits=tally.decode.hits,
        decode_misses=tally.decode.misses,
        evictions=tally.evictions,
        reads=tally.reads,
        bytes_read=tally.bytes_read,
        guesses_useful=tally.guesses_useful,
        guesses_wasted_bytes=tally.guesses_wasted_bytes,
        layers={n: (c.hits, c.misses) for n, c in tally.by_layer.items()},
    )


def encode(outcome: Outcome) -> str:
    return msgspec.json.format(msgspec.json.encode(outcome), indent=2).decode() + "\n"


def _share(hits: int, misses: int) -> float:
    return hits / (hits + misses) if hits + misses else 0.0

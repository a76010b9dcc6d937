"""The optimum: keep what is wanted again soonest. No policy can have more hits.

Belady 1966, for calls that ask for several experts at once: after each call those stay, of what was
there and what was asked for, whose next use is nearest.
"""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Mapping, Sequence

from colibri.config.choices import CacheScope
from colibri.experts.base import LAYER_KEYS
from colibri.lab.replay.caches import Counts, Tally
from colibri.lab.replay.demands import Demand
from colibri.routing.trace import LayerFacts

_NEVER = 1 << 62


class Belady:
    """Takes all demands first; counts those from `count_from` (a number of demands) on."""

    def __init__(self, layers: Sequence[LayerFacts], scope: CacheScope) -> None:
        self._facts = {n.layer: n for n in layers}
        self._scope = scope
        self._keys = array("Q")  # of all demands, one after the other
        self._starts = array("Q", [0])
        self._decode = bytearray()

    def call(self, demand: Demand) -> None:
        base = demand.layer * LAYER_KEYS
        self._keys.extend(base + expert for expert in demand.experts)
        self._starts.append(len(self._keys))
        self._decode.append(not demand.prefill)

    def tally(self, slots: Mapping[int, int], count_from: int = 0) -> Tally:
        """slots: of each layer; in the global scope layers with slots of a size share theirs."""
        next_use = self._next_uses()
        shares = {n: self._share(n) for n in self._facts}
        rooms = {s: _Room(sum(slots[n] for n in slots if shares[n] == s)) for s in shares.values()}
        tally = Tally({n: Counts() for n in self._facts})
        for number in range(len(self._decode)):
            first, last = self._starts[number], self._starts[number + 1]
            keys = self._keys[first:last]
            layer = keys[0] // LAYER_KEYS
            hits = rooms[shares[layer]].call(keys, next_use[first:last])
            if number >= count_from:
                self._count(tally, number, layer, hits, len(keys) - hits)
        return tally

    def _share(self, layer: int) -> int:
        return layer if self._scope == "layer" else -1 - self._facts[layer].slot_bytes

    def _count(self, tally: Tally, number: int, layer: int, hits: int, misses: int) -> None:
        for counts in (tally.by_layer[layer], tally.decode)[: 1 + self._decode[number]]:
            counts.hits += hits
            counts.misses += misses
        tally.reads += misses
        tally.bytes_read += misses * self._facts[layer].expert_bytes

    def _next_uses(self) -> array[int]:
        """For each key the number of the demand that wants it next."""
        uses = array("Q", bytes(8 * len(self._keys)))
        seen: dict[int, int] = {}
        for number in range(len(self._decode) - 1, -1, -1):
            for at in range(self._starts[number], self._starts[number + 1]):
                uses[at] = seen.get(self._keys[at], _NEVER)
                seen[self._keys[at]] = number
        return uses


class _Room:
    """Slots that some layers share."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._next: dict[int, int] = {}  # resident: next use
        self._heap: list[tuple[int, int]] = []  # (-next use, key), also of what has changed

    def call(self, keys: array[int], uses: array[int]) -> int:
        """How many of the keys are there; afterwards those are whose next use is nearest."""
        hits = sum(key in self._next for key in keys)
        for key, use in zip(keys, uses, strict=True):
            self._next[key] = use
            heapq.heappush(self._heap, (-use, key))
        while len(self._next) > self._slots:
            use, key = heapq.heappop(self._heap)
            if self._next.get(key) == -use:
                del self._next[key]
        return hits

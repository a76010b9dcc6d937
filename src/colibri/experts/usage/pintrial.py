"""Whether pins pay, asked of the work itself.

Pins help where the work repeats itself and hurt where it changes: a cache of recent experts then
guesses better than counts of the past. So a few layers' books are kept twice more, without memory
or reads: as if nothing were pinned, and as if `auto` pinned. Both are asked what the layer is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from colibri.experts.base import CachePolicy
from colibri.experts.cache.layer import LayerCache
from colibri.experts.cache.policies import make_policy
from colibri.experts.cache.pool import SlotPool
from colibri.experts.usage.pins import CachedLayer
from colibri.kernels.distinct import distinct

WATCHED_LAYERS = 2
CALLS_KEPT = 512  # a layer, until the next judgement
FEWEST_DEMANDS = 500  # before pins are judged to pay
HALF_LIFE_DEMANDS = 4000
GAIN = 0.02  # pins begin from so much more hits on, relative to none; they end where they lose


class Shadow:
    """The books of one layer's cache."""

    def __init__(self, layer: CachedLayer, policy: CachePolicy) -> None:
        self._cache = LayerCache(layer.experts, SlotPool(list(range(layer.slots)), policy))
        self._held: frozenset[int] = frozenset()

    def hold(self, experts: Collection[int]) -> None:
        wanted = frozenset(experts)
        for expert in self._held - wanted:
            self._cache.unhold(expert)
        for expert in wanted - self._held:
            self._cache.hold(expert)
        self._held = wanted

    def demand(self, experts: Sequence[int]) -> int:
        """A call asks for these, ascending; how many hits."""
        cache = self._cache
        hits = int(cache.resident[experts].sum())
        cache.demand(experts)
        for expert in [e for e in experts if not cache.resident[e]]:
            if cache.reserve([expert]):
                cache.landed(expert)
                cache.release([expert])
        return hits


class PinTrial:
    """Judges from the calls of a few layers. policy: the cache's, by name."""

    def __init__(self, layers: Mapping[int, CachedLayer], policy: str) -> None:
        partial = [n for n, layer in sorted(layers.items()) if not layer.complete]
        watched = partial[:: max(1, len(partial) // WATCHED_LAYERS)][:WATCHED_LAYERS]

        def books() -> dict[int, Shadow]:
            return {n: Shadow(layers[n], make_policy(policy)) for n in watched}

        self._plain, self._pinned = books(), books()
        self.calls: dict[int, deque[bytes]] = {n: deque(maxlen=CALLS_KEPT) for n in watched}
        self._hits_plain = self._hits_pinned = self._demands = 0.0
        self.pays = False

    def judge(self, pins: Mapping[int, Collection[int]]) -> bool:
        """Whether these pins would have paid in the calls since the last judgement, and before.

        `calls` has them, each a layer's topk_ids as bytes; it is empty afterwards.
        """
        for layer, calls in self.calls.items():
            self._pinned[layer].hold(pins.get(layer, ()))
            for call in calls:
                self._count(layer, distinct(np.frombuffer(call, np.int32)).tolist())
            calls.clear()
        if self.pays:
            self.pays = self._hits_pinned >= self._hits_plain
        elif self._demands >= FEWEST_DEMANDS:
            self.pays = self._hits_pinned > self._hits_plain * (1 + GAIN)
        return self.pays

    def _count(self, layer: int, experts: list[int]) -> None:
        left = 0.5 ** (len(experts) / HALF_LIFE_DEMANDS)
        self._demands = self._demands * left + len(experts)
        self._hits_plain = self._hits_plain * left + self._plain[layer].demand(experts)
        self._hits_pinned = self._hits_pinned * left + self._pinned[layer].demand(experts)

"""The engine's own caches and policies, fed with demands whose reads land at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from colibri.config.choices import CacheScope
from colibri.experts.admission import Admission
from colibri.experts.cache.layer import LayerCache
from colibri.experts.cache.pools import make_caches
from colibri.lab.replay.demands import Demand
from colibri.routing.trace import LayerFacts


@dataclass
class Counts:
    """Of one kind of step, in one layer."""

    hits: int = 0
    misses: int = 0

    @property
    def asked(self) -> int:
        return self.hits + self.misses


@dataclass
class Tally:
    """What a cache did with a trace."""

    by_layer: dict[int, Counts] = field(default_factory=dict)
    decode: Counts = field(default_factory=Counts)
    evictions: int = 0
    reads: int = 0
    bytes_read: int = 0
    guesses_useful: int = 0
    guesses_wasted_bytes: int = 0

    @property
    def total(self) -> Counts:
        hits = sum(n.hits for n in self.by_layer.values())
        return Counts(hits, sum(n.misses for n in self.by_layer.values()))


class CacheReplay:
    """The caches of all layers, of so many slots each. Raises ConfigError for a policy."""

    def __init__(
        self, layers: Sequence[LayerFacts], slots: Mapping[int, int], policy: str, scope: CacheScope
    ) -> None:
        self._bytes = {n.layer: n.expert_bytes for n in layers}
        self._caches = make_caches(
            {n.layer: n.experts for n in layers},
            {n.layer: n.slot_bytes for n in layers},
            slots,
            policy,
            scope,
            lambda size, count: list(range(count)),
        )
        self._decode = Counts()
        self._guessed_reads: dict[int, int] = dict.fromkeys(self._caches, 0)

    def call(self, demand: Demand) -> None:
        """Decides as StreamedExperts.run does."""
        cache = self._caches[demand.layer]
        before = cache.hits, cache.misses
        if cache.has_all(demand.ids):
            cache.demand_resident(demand.ids)
            cache.hits += len(demand.experts)
        else:
            _admit(cache, demand)
        if not demand.prefill:
            self._decode.hits += cache.hits - before[0]
            self._decode.misses += cache.misses - before[1]

    def guess(self, layer: int, experts: Sequence[int]) -> None:
        """Reads ahead what is absent of these, as far as there is room; it lands at once."""
        cache = self._caches[layer]
        for expert in experts:
            if cache.has_slot(expert):
                continue
            if cache.reserve_on_a_guess(expert, experts) is None:
                return
            self._guessed_reads[layer] += 1
            cache.landed_on_a_guess(expert, self._bytes[layer])

    def hold(self, layer: int, experts: Sequence[int]) -> int:
        """Keeps these for good, the first ones if not all can be; how many."""
        return sum(self._caches[layer].hold(expert) for expert in experts)

    def forget_counts(self) -> None:
        self._decode = Counts()
        for layer, cache in self._caches.items():
            cache.zero_counters()
            self._guessed_reads[layer] = 0

    def tally(self) -> Tally:
        caches, guessed = self._caches, self._guessed_reads
        return Tally(
            by_layer={n: Counts(c.hits, c.misses) for n, c in caches.items()},
            decode=Counts(self._decode.hits, self._decode.misses),
            evictions=sum(c.evictions for c in caches.values()),
            reads=sum(c.misses + guessed[n] for n, c in caches.items()),
            bytes_read=sum((c.misses + guessed[n]) * self._bytes[n] for n, c in caches.items()),
            guesses_useful=sum(c.guesses_useful for c in caches.values()),
            guesses_wasted_bytes=sum(c.guesses_wasted_bytes for c in caches.values()),
        )

    def resident(self, layer: int) -> set[int]:
        return set(np.flatnonzero(self._caches[layer].resident).tolist())


def _admit(cache: LayerCache, demand: Demand) -> None:
    admission = Admission(cache, demand.experts, (), demand.in_order)
    cache.release(admission.hits)
    while admitted := admission.admit():
        for expert, _ in admitted:
            cache.landed(expert)
            cache.release([expert])
    assert not admission.waiting

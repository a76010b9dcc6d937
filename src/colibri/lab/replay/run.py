"""Runs a trace through many caches at once, in one pass, then through the optimum."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, pairwise, product

import numpy as np

from colibri.config.choices import CacheScope
from colibri.errors import ConfigError
from colibri.experts.cache.policies import POLICIES
from colibri.experts.cache.policies.auto import ratio, resolve
from colibri.lab.replay.belady import Belady
from colibri.lab.replay.caches import CacheReplay
from colibri.lab.replay.capacity import Capacity, pins_by_layer
from colibri.lab.replay.demands import Demand, demands
from colibri.lab.replay.outcome import Outcome, Row, row_of
from colibri.routing.trace import LayerFacts, TraceFile

OPTIMUM = "belady"
NAMES = ("auto", *POLICIES, OPTIMUM)


@dataclass(frozen=True)
class Wanted:
    """What to replay.

    pin: as for pins_by_layer, by the use in the first `pin_from` of the calls; then counting begins
    after these for every cache. lookahead: share of guesses that are right; every expert of a
    layer's next call is guessed, and read in time, while the layer before it runs.
    """

    capacities: Sequence[Capacity]
    policies: Sequence[str]
    scopes: Sequence[CacheScope] = ("layer",)
    pin: str | None = None
    pin_from: float = 0.25
    lookahead: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for name in self.policies:
            if name not in NAMES:
                raise ConfigError(f"--policy {name!r} is unknown; there is: {', '.join(NAMES)}")
        if not 0 < self.pin_from < 1:
            raise ConfigError(f"--pin-from {self.pin_from}: a share between 0 and 1")
        if self.lookahead is not None and not 0 <= self.lookahead <= 1:
            raise ConfigError(f"--lookahead {self.lookahead}: a share from 0 to 1")


def replay(trace: TraceFile, wanted: Wanted) -> Outcome:
    """Raises ConfigError for a trace without calls, and what reading it raises."""
    layers = trace.header.layers
    policies = [name for name in wanted.policies if name != OPTIMUM]
    caches = [
        _Cache(layers, capacity, policy, scope)
        for capacity, policy, scope in product(wanted.capacities, policies, wanted.scopes)
    ]
    optima = {s: Belady(layers, s) for s in wanted.scopes if OPTIMUM in wanted.policies}
    first = _first_counted(trace, wanted)
    pass_ = _Pass(layers, wanted, caches, first)
    for demand, following in pairwise(chain(demands(trace), (None,))):
        assert demand is not None
        pass_.call(demand, following)
        for optimum in optima.values():
            optimum.call(demand)
    if not pass_.calls:
        raise ConfigError(f"{trace.path}: an empty trace")
    rows = [cache.row() for cache in caches]
    for capacity, (scope, optimum) in product(wanted.capacities, optima.items()):
        tally = optimum.tally(capacity.slots(layers), first)
        rows.append(row_of(layers, tally, capacity, OPTIMUM, OPTIMUM, scope))
    return Outcome(
        model=trace.header.model,
        experts_per_token=max(n.k for n in layers),
        calls=pass_.calls,
        tokens=pass_.tokens,
        rows=rows,
    )


def _first_counted(trace: TraceFile, wanted: Wanted) -> int:
    if wanted.pin is None:
        return 0
    return int(sum(1 for _ in trace.calls()) * wanted.pin_from)


class _Cache:
    """One combination of the table."""

    def __init__(
        self, layers: Sequence[LayerFacts], capacity: Capacity, policy: str, scope: CacheScope
    ) -> None:
        self._layers, self._capacity = layers, capacity
        slots = capacity.slots(layers)
        self._policy, self._scope = policy, scope
        self._resolved = resolve(policy, ratio(slots, sum(n.k for n in layers)))
        self.replay = CacheReplay(layers, slots, self._resolved, scope)
        self._pinned = 0

    def pin(self, pins: dict[int, list[int]]) -> None:
        self._pinned = sum(self.replay.hold(layer, experts) for layer, experts in pins.items())
        self.replay.forget_counts()

    def row(self) -> Row:
        return row_of(
            self._layers,
            self.replay.tally(),
            self._capacity,
            self._policy,
            self._resolved,
            self._scope,
            self._pinned,
        )


class _Pass:
    """Feeds the caches, pins once the prefix is over, guesses each next call."""

    def __init__(
        self, layers: Sequence[LayerFacts], wanted: Wanted, caches: Sequence[_Cache], first: int
    ) -> None:
        self._layers, self._wanted, self._caches = layers, wanted, caches
        self._first = first
        self._number = 0
        self._usage = {n.layer: Counter[int]() for n in layers}
        self._last_step = -1
        self._experts = {n.layer: n.experts for n in layers}
        self.calls = self.tokens = 0

    def call(self, demand: Demand, following: Demand | None) -> None:
        self._pin_or_count(demand)
        for cache in self._caches:
            cache.replay.call(demand)
        if self._wanted.lookahead is not None and following is not None:
            self._guess(following, self._wanted.lookahead, following.step == demand.step)
        self._number += 1

    def _pin_or_count(self, demand: Demand) -> None:
        wanted = self._wanted
        if wanted.pin is not None and self._number == self._first:
            pins = pins_by_layer(wanted.pin, self._usage, self._layers)
            for cache in self._caches:
                cache.pin(pins)
        if self._number < self._first:
            self._usage[demand.layer].update(demand.experts)
            return
        self.calls += 1
        self.tokens += not demand.prefill and demand.step != self._last_step
        self._last_step = demand.step

    def _guess(self, following: Demand, recall: float, same_step: bool) -> None:
        if not same_step or following.prefill:
            return
        rng = np.random.default_rng((self._wanted.seed, self._number))
        wrong = rng.random(len(following.experts)) >= recall
        any_expert = rng.integers(0, self._experts[following.layer], len(wrong))
        guessed = np.where(wrong, any_expert, following.ids).tolist()
        for cache in self._caches:
            cache.replay.guess(following.layer, guessed)

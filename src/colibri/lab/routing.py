"""Routers of the bench: which experts a token goes to is drawn, or read from a trace.

The family's own router still runs on the real router_logits, so that its time is spent and its
weights are used; only the ids are replaced. All is drawn before the measured part: a table by layer
and row. A row depends on the seed and its position only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from colibri.errors import ConfigError
from colibri.lab.trace import Trace, read_trace
from colibri.routing.base import F32, I32, Router

FORMS = "model, uniform, zipf:S, persist:P, zipf:S,persist:P or trace:FILE"
_FIRST_ROWS = 256


@dataclass(frozen=True)
class Drawn:
    """Popularity falls as rank ** -zipf, ranks differing by layer; each of a token's experts is
    kept for the next token with probability `persistence`."""

    zipf: float = 0.0
    persistence: float = 0.0


def parse_routing(text: str) -> Drawn | Trace | None:
    """What --routing says; None: the model's own choice. Raises ConfigError."""
    if text == "model":
        return None
    if text == "uniform":
        return Drawn()
    kind, _, value = text.partition(":")
    if kind == "trace" and value:
        return read_trace(Path(value))
    values: dict[str, float] = {}
    for part in text.split(","):
        kind, _, value = part.partition(":")
        if kind not in ("zipf", "persist") or kind in values:
            raise ConfigError(f"--routing {text!r}: give {FORMS}")
        values[kind] = _number(text, kind, value)
    return Drawn(values.get("zipf", 0.0), values.get("persist", 0.0))


def _number(text: str, kind: str, value: str) -> float:
    most = 1.0 if kind == "persist" else 10.0
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not 0 <= number <= most:
        raise ConfigError(f"--routing {text!r}: {kind} takes a number from 0 to {most:g}")
    return number


class _Source(Protocol):
    def rows(self, start: int, stop: int) -> tuple[I32, F32 | None]:
        """ids and weights (None: the router's own) [rows, layers, k]."""
        ...


class WatchedRouter:
    """A layer's router, and which experts the rows of prompts went to."""

    def __init__(self, layer: int, router: Router, experts: int) -> None:
        self.layer = layer
        self.touched = np.zeros(experts, np.bool_)
        self.kept: list[tuple[I32, F32]] | None = None  # every row's choice, if asked for
        self._router = router

    @property
    def k(self) -> int:
        return self._router.k

    def route(self, logits: F32) -> tuple[I32, F32]:
        ids, weights = self._router.route(logits)
        if len(ids) > 1:
            self.touched[ids] = True
        if self.kept is not None:
            self.kept.append((ids, weights))
        return ids, weights


class RoutingKit:
    """Makes the routers of one model; `make` is a RouterFactory. routing None: the family's."""

    def __init__(self, routing: Drawn | Trace | None, seed: int) -> None:
        self._routing = routing
        self._seed = seed
        self.watched: list[WatchedRouter] = []
        self._routers: list[TableRouter] = []
        self._source: _Source | None = None
        self._drawn = 0

    def make(self, layer: int, router: Router, experts: int) -> Router:
        if self._routing is not None:
            router = TableRouter(self, router, experts)
            self._routers.append(router)
        self.watched.append(WatchedRouter(layer, router, experts))
        return self.watched[-1]

    def rewind(self, position: int = 0) -> None:
        """The next row of every layer is that of `position`; what was watched is forgotten."""
        for watched in self.watched:
            watched.touched[:] = False
            if watched.kept is not None:
                watched.kept = []
        for router in self._routers:
            router.position = position

    def keep(self) -> None:
        """From now on remember every row's choice, for `choices`."""
        for watched in self.watched:
            watched.kept = []

    def choices(self) -> tuple[I32, F32]:
        """ids and weights [rows since the last rewind, layers, k] of one sequence."""
        if not self.watched:
            raise ConfigError("this model has no routed experts, so there is no routing to record")
        layers = [list(zip(*watched.kept or [], strict=True)) for watched in self.watched]
        ids = [np.concatenate(layer[0]) for layer in layers]
        return np.stack(ids, axis=1), np.stack([np.concatenate(n[1]) for n in layers], axis=1)

    def prepare(self, rows: int) -> None:
        """Have the tables ready up to `rows`."""
        if rows <= self._drawn or not self._routers:
            return
        if self._source is None:
            self._source = self._make_source()
        ids, weights = self._source.rows(self._drawn, rows)
        for index, router in enumerate(self._routers):
            router.extend(ids[:, index], None if weights is None else weights[:, index])
        self._drawn = rows

    def _make_source(self) -> _Source:
        experts, ks = [r.experts for r in self._routers], {r.k for r in self._routers}
        if len(ks) > 1:
            raise ConfigError(f"--routing: layers choose {sorted(ks)} experts; one number expected")
        (k,) = ks
        assert self._routing is not None
        if isinstance(self._routing, Trace):
            return self._routing.checked(experts, k)
        return DrawnRows(self._routing, self._seed, experts, k)


class TableRouter:
    """Ids from the table, weights from the family's own router."""

    def __init__(self, kit: RoutingKit, own: Router, experts: int) -> None:
        self.experts = experts
        self.position = 0
        self._kit = kit
        self._own = own
        self._ids: I32 = np.empty((0, own.k), np.int32)
        self._weights: F32 | None = None

    @property
    def k(self) -> int:
        return self._own.k

    def extend(self, ids: I32, weights: F32 | None) -> None:
        self._ids = np.concatenate([self._ids, ids])
        if weights is not None:
            known = self._weights
            self._weights = weights.copy() if known is None else np.concatenate([known, weights])

    def route(self, logits: F32) -> tuple[I32, F32]:
        _, weights = self._own.route(logits)
        rows = slice(self.position, self.position + len(logits))
        self.position = rows.stop
        if rows.stop > len(self._ids):
            self._kit.prepare(max(2 * rows.stop, _FIRST_ROWS))
        return self._ids[rows], weights if self._weights is None else self._weights[rows]


class DrawnRows:
    """Without replacement, by the Gumbel trick: the k largest of log popularity + noise."""

    def __init__(self, drawn: Drawn, seed: int, experts: list[int], k: int) -> None:
        self._drawn = drawn
        self._seed = seed
        self._k = k
        self._popularity = _popularity(drawn.zipf, seed, experts)
        self._last: I32 | None = None

    def rows(self, start: int, stop: int) -> tuple[I32, None]:
        """To be asked in ascending order: with persistence a row follows from the one before."""
        return np.stack([self._row(position) for position in range(start, stop)]), None

    def _row(self, position: int) -> I32:
        rng = np.random.default_rng((self._seed, position))
        keys = self._popularity + rng.gumbel(size=self._popularity.shape)
        if self._last is not None:
            kept = rng.random(self._last.shape) < self._drawn.persistence
            layers = np.nonzero(kept)[0]
            keys[layers, self._last[kept]] = np.inf
        ids = np.argpartition(-keys, self._k - 1, axis=1)[:, : self._k].astype(np.int32)
        self._last = ids
        return ids


def _popularity(zipf: float, seed: int, experts: list[int]) -> NDArray[np.float64]:
    """log popularity [layers, most experts]; -inf where a layer has no such expert."""
    table = np.full((len(experts), max(experts)), -np.inf)
    for index, count in enumerate(experts):
        ranks = np.random.default_rng((seed, 1 << 32, index)).permutation(count) + 1
        table[index, :count] = -zipf * np.log(ranks)
    return table

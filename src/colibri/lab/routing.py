"""Routers of the bench: which experts a token goes to is drawn, or read from a trace.

The family's own router still runs on the real router_logits, so that its time is spent and its
weights are used; only the ids are replaced. All is drawn before the measured part: a table by layer
and row.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from colibri.errors import ConfigError
from colibri.kernels.layer import RouteRule
from colibri.lab.drawing import DEFAULT_RECALL, Drawn, DrawnRows, guesses
from colibri.lab.trace import Trace, read_trace
from colibri.routing.base import F32, I32, Router, RuledRouter

FORMS = "model, uniform, trace:FILE, or some of zipf:S,persist:P,guess:R"
_MOST = {"zipf": 10.0, "persist": 1.0, "guess": 1.0}
_FIRST_ROWS = 256
I64 = NDArray[np.int64]


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
        if kind not in _MOST or kind in values:
            raise ConfigError(f"--routing {text!r}: give {FORMS}")
        values[kind] = _number(text, kind, value)
    recall = values.get("guess", DEFAULT_RECALL)
    return Drawn(values.get("zipf", 0.0), values.get("persist", 0.0), recall)


def _number(text: str, kind: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not 0 <= number <= _MOST[kind]:
        raise ConfigError(f"--routing {text!r}: {kind} takes a number from 0 to {_MOST[kind]:g}")
    return number


class WatchedRouter:
    """A layer's router, and which experts the rows of prompts went to."""

    def __init__(self, layer: int, router: Router, experts: int) -> None:
        self.layer = layer
        self.router = router
        self.touched = np.zeros(experts, np.bool_)

    @property
    def k(self) -> int:
        return self.router.k

    @property
    def experts(self) -> int:
        return len(self.touched)

    def rule(self, experts: int) -> RouteRule | None:
        return self.router.rule(experts) if isinstance(self.router, RuledRouter) else None

    def chosen(self, ids: I32, weights: F32) -> tuple[I32, F32]:
        change = getattr(self.router, "chosen", None)
        return self._watch(*(change(ids, weights) if change else (ids, weights)))

    def route(self, logits: F32) -> tuple[I32, F32]:
        return self._watch(*self.router.route(logits))

    def _watch(self, ids: I32, weights: F32) -> tuple[I32, F32]:
        if len(ids) > 1:
            self.touched[ids] = True
        return ids, weights

    def guess(self, logits: F32) -> I32:
        return self.router.guess(logits)


class TableRouter:
    """Ids from the table, weights from the family's own router.

    position: of the next rows. places: of those of a step with as many, each for itself.
    """

    def __init__(self, kit: RoutingKit, own: Router) -> None:
        self.position = 0
        self.places: I64 = np.empty(0, np.int64)
        self._kit = kit
        self._own = own
        self._ids: I32 = np.empty((0, own.k), np.int32)
        self._guesses: I32 = self._ids
        self._weights: F32 = np.empty((0, own.k), np.float32)

    @property
    def k(self) -> int:
        return self._own.k

    def extend(self, ids: I32, guessed: I32, weights: F32 | None) -> None:
        self._ids = np.concatenate([self._ids, ids])
        self._guesses = np.concatenate([self._guesses, guessed])
        if weights is not None:
            self._weights = np.concatenate([self._weights, weights])

    def rule(self, experts: int) -> RouteRule | None:
        return self._own.rule(experts) if isinstance(self._own, RuledRouter) else None

    def route(self, logits: F32) -> tuple[I32, F32]:
        return self.chosen(*self._own.route(logits))

    def chosen(self, ids: I32, weights: F32) -> tuple[I32, F32]:
        rows = self._next_rows(len(ids))
        if isinstance(rows, slice):
            self.position = rows.stop
        else:
            self.places = rows + 1
        return self._ids[rows], self._weights[rows] if len(self._weights) else weights

    def guess(self, logits: F32) -> I32:
        """As good as the recall says, whatever the logits: what route() will say next is known."""
        self._own.guess(logits)
        rows = self._next_rows(len(logits))
        return self._guesses[rows]

    def _next_rows(self, count: int) -> slice | I64:
        rows: slice | I64 = slice(self.position, self.position + count)
        stop = self.position + count
        if count == len(self.places):
            rows, stop = self.places, int(self.places.max()) + 1
        if stop > len(self._ids):
            self._kit.prepare(max(2 * stop, _FIRST_ROWS))
        return rows


class _Source(Protocol):
    def rows(self, start: int, stop: int) -> tuple[I32, F32 | None]:
        """ids and weights (None: the router's own) [rows, layers, k]."""
        ...


class RoutingKit:
    """Makes the routers of one model; `make` is a RouterFactory. routing None: the family's."""

    def __init__(self, routing: Drawn | Trace | None, seed: int) -> None:
        self._routing = routing
        self._seed = seed
        self._made: dict[int, WatchedRouter] = {}
        self._source: _Source | None = None
        self._drawn = 0

    @property
    def watched(self) -> list[WatchedRouter]:
        """By layer; they may be made in any order, by several threads."""
        return [self._made[layer] for layer in sorted(self._made)]

    def make(self, layer: int, router: Router, experts: int) -> Router:
        inner = router if self._routing is None else TableRouter(self, router)
        self._made[layer] = WatchedRouter(layer, inner, experts)
        return self._made[layer]

    def rewind(self, position: int = 0, places: Sequence[int] = ()) -> None:
        """The next row of every layer is that of `position`; in steps of as many rows as there are
        places each conversation goes on from its own. What was watched is forgotten."""
        for watched in self.watched:
            watched.touched[:] = False
            if isinstance(watched.router, TableRouter):
                watched.router.position = position
                watched.router.places = np.array(places, np.int64)

    def prepare(self, rows: int) -> None:
        """Have the tables ready up to `rows`."""
        if rows <= self._drawn or not self._made or self._routing is None:
            return
        watched = self.watched
        experts = [w.experts for w in watched]
        if self._source is None:
            self._source = self._make_source(experts)
        ids, weights = self._source.rows(self._drawn, rows)
        recall = self._routing.recall if isinstance(self._routing, Drawn) else DEFAULT_RECALL
        guessed = guesses(ids, experts, recall, self._seed, self._drawn)
        for index, router in enumerate(w.router for w in watched):
            assert isinstance(router, TableRouter)
            own = None if weights is None else weights[:, index]
            router.extend(ids[:, index], guessed[:, index], own)
        self._drawn = rows

    def _make_source(self, experts: list[int]) -> _Source:
        ks = {watched.k for watched in self.watched}
        if len(ks) > 1:
            raise ConfigError(f"--routing: layers choose {sorted(ks)} experts; one number expected")
        (k,) = ks
        if isinstance(self._routing, Trace):
            return self._routing.checked(experts, k)
        assert self._routing is not None
        return DrawnRows(self._routing, self._seed, experts, k)

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

from colibri.errors import ConfigError
from colibri.kernels.layer import GivenChoices, RouteRule, given_rule
from colibri.lab.drawing import DEFAULT_RECALL, Drawn, DrawnRows, guesses
from colibri.lab.trace import Trace, read_trace
from colibri.routing.base import F32, I32, Router, RuledRouter

FORMS = "model, uniform, trace:FILE, or some of zipf:S,persist:P,guess:R"
_MOST = {"zipf": 10.0, "persist": 1.0, "guess": 1.0}
_FIRST_ROWS = 256


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


class BenchRouter(Router, Protocol):
    layer: int

    @property
    def experts(self) -> int: ...

    def rewind(self, position: int, places: Sequence[int]) -> None:
        """The next row is that of `position`; in steps of as many rows as there are places each
        goes on from its own. What was seen is forgotten."""
        ...

    def touched(self, rows: int) -> int:
        """Distinct experts of the prompt since then, which has so many rows."""
        ...


class WatchedRouter:
    """A layer's own router, and which experts the rows of prompts went to."""

    def __init__(self, layer: int, router: Router, experts: int) -> None:
        self.layer = layer
        self.router = router
        self._touched = np.zeros(experts, np.bool_)

    @property
    def k(self) -> int:
        return self.router.k

    @property
    def experts(self) -> int:
        return len(self._touched)

    def rewind(self, position: int, places: Sequence[int]) -> None:
        self._touched[:] = False

    def touched(self, rows: int) -> int:
        return int(self._touched.sum())

    def rule(self, experts: int) -> RouteRule | None:
        return self.router.rule(experts) if isinstance(self.router, RuledRouter) else None

    def chosen(self, ids: I32, weights: F32) -> tuple[I32, F32]:
        change = getattr(self.router, "chosen", None)
        return self._watch(*(change(ids, weights) if change else (ids, weights)))

    def route(self, logits: F32) -> tuple[I32, F32]:
        return self._watch(*self.router.route(logits))

    def _watch(self, ids: I32, weights: F32) -> tuple[I32, F32]:
        if len(ids) > 1:
            self._touched[ids] = True
        return ids, weights

    def guess(self, logits: F32) -> I32:
        return self.router.guess(logits)


class TableRouter:
    """Ids from the table, weights from the family's own router or from the table too.

    The kernel that routes takes them itself: a row costs what the family's own choice costs.
    """

    def __init__(self, kit: RoutingKit, layer: int, own: Router, experts: int) -> None:
        self.layer = layer
        self.experts = experts
        self._kit = kit
        self._own = own
        self._ids: I32 = np.empty((0, own.k), np.int32)
        self._guesses: I32 = self._ids
        self._weights: F32 = np.empty((0, own.k), np.float32)
        self._given = GivenChoices()
        self._first = 0

    @property
    def k(self) -> int:
        return self._own.k

    def rewind(self, position: int, places: Sequence[int]) -> None:
        self._given.position, self._given.places = position, list(places)
        self._first = position

    def touched(self, rows: int) -> int:
        return len(np.unique(self._ids[self._first : self._first + rows]))

    def extend(self, ids: I32, guessed: I32, weights: F32 | None) -> None:
        self._ids = np.concatenate([self._ids, ids])
        self._guesses = np.concatenate([self._guesses, guessed])
        if weights is not None:
            self._weights = np.concatenate([self._weights, weights])
        self._given.set(self._ids, self._weights if weights is not None else None)

    def rule(self, experts: int) -> RouteRule | None:
        rule = self._own.rule(experts) if isinstance(self._own, RuledRouter) else None
        return None if rule is None else given_rule(rule, self._given)

    def route(self, logits: F32) -> tuple[I32, F32]:
        ids, weights = self._own.route(logits)
        self._next_rows(len(ids))
        self._given.take(ids, weights)
        return ids, weights

    def guess(self, logits: F32) -> I32:
        """As good as the recall says, whatever the logits: what route() will say next is known."""
        self._own.guess(logits)
        rows = self._next_rows(len(logits))
        return self._guesses[rows]

    def _next_rows(self, count: int) -> list[int]:
        rows = self._given.next(count)
        if max(rows) >= len(self._ids):
            self._kit.prepare(max(2 * max(rows) + 2, _FIRST_ROWS))
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
        self._made: dict[int, BenchRouter] = {}
        self._source: _Source | None = None
        self._drawn = 0

    @property
    def routers(self) -> list[BenchRouter]:
        """By layer; they may be made in any order, by several threads."""
        return [self._made[layer] for layer in sorted(self._made)]

    def make(self, layer: int, router: Router, experts: int) -> Router:
        if self._routing is None:
            made: BenchRouter = WatchedRouter(layer, router, experts)
        else:
            made = TableRouter(self, layer, router, experts)
        self._made[layer] = made
        return made

    def rewind(self, position: int = 0, places: Sequence[int] = ()) -> None:
        """As BenchRouter.rewind, of every layer."""
        for router in self.routers:
            router.rewind(position, places)

    def prepare(self, rows: int) -> None:
        """Have the tables ready up to `rows`."""
        if rows <= self._drawn or not self._made or self._routing is None:
            return
        routers = self.routers
        experts = [router.experts for router in routers]
        if self._source is None:
            self._source = self._make_source(experts)
        ids, weights = self._source.rows(self._drawn, rows)
        recall = self._routing.recall if isinstance(self._routing, Drawn) else DEFAULT_RECALL
        guessed = guesses(ids, experts, recall, self._seed, self._drawn)
        for index, router in enumerate(routers):
            assert isinstance(router, TableRouter)
            own = None if weights is None else weights[:, index]
            router.extend(ids[:, index], guessed[:, index], own)
        self._drawn = rows

    def _make_source(self, experts: list[int]) -> _Source:
        ks = {router.k for router in self.routers}
        if len(ks) > 1:
            raise ConfigError(f"--routing: layers choose {sorted(ks)} experts; one number expected")
        (k,) = ks
        if isinstance(self._routing, Trace):
            return self._routing.checked(experts, k)
        assert self._routing is not None
        return DrawnRows(self._routing, self._seed, experts, k)

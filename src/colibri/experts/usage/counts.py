"""How often each expert was selected, newer selections weighing more.

One selection is one row (token) routed to one expert, in prompts and answers alike. A count halves
with every `half_life_tokens` tokens that follow it; what is left of an expert's is its heat.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from colibri.experts.base import Ids
from colibri.experts.usage.recency import Recency

Heat = NDArray[np.float64]

_FOLD_IDS = 1 << 16  # selections noted before they are folded into the counts: 256 KB


@dataclass(frozen=True)
class Counts:
    """What was counted. selections: by layer, ever; heat: by layer [experts], aged."""

    tokens: int
    selections: Mapping[int, int]
    heat: Mapping[int, Heat]

    @classmethod
    def none(cls, experts: Mapping[int, int]) -> Counts:
        """experts: how many, by layer."""
        return cls(0, dict.fromkeys(experts, 0), {n: np.zeros(e) for n, e in experts.items()})

    def then(self, later: Counts, half_life_tokens: int) -> Counts:
        """These counts, aged by the tokens of the later ones of the same layers, and those."""
        left = 0.5 ** (later.tokens / half_life_tokens)
        return Counts(
            self.tokens + later.tokens,
            {n: count + later.selections[n] for n, count in self.selections.items()},
            {n: heat * left + later.heat[n] for n, heat in self.heat.items()},
        )

    def bounded(self, half_life_tokens: int) -> Counts:
        """With no more heat than this half-life lets gather: what was counted by a longer one would
        outweigh all that is new for long."""
        heat = {}
        for layer, old in self.heat.items():
            a_token = self.selections[layer] / max(self.tokens, 1)
            most = a_token * half_life_tokens / math.log(2)
            heat[layer] = old * min(1.0, most / max(float(old.sum()), 1.0))
        return replace(self, heat=heat)

    @property
    def total_selections(self) -> int:
        return sum(self.selections.values())


class UsageRecorder:
    """Counts what a model selects. For the thread that runs it.

    Noting is all that happens on the path of a token: an array's bytes go on a list (the array
    itself may be a buffer that the next layer uses again), and many are counted in one go.
    """

    def __init__(self, experts: Mapping[int, int], half_life_tokens: int) -> None:
        """experts: how many, by layer."""
        self._experts = dict(experts)
        self._half_life_tokens = half_life_tokens
        self.watched: Mapping[int, deque[bytes]] = {}  # by layer: gets each call's ids when counted
        self._recency = Recency(experts)
        self._folding = threading.Lock()  # what is folded changes as a whole; noting needs none
        self._start()

    def note(self, layer: int, topk_ids: Ids) -> None:
        """topk_ids: int32 [rows, k], each within the layer's experts."""
        self._noted[layer].append(topk_ids.tobytes())
        self._rows[layer] += len(topk_ids)
        self._pending += topk_ids.size
        if self._pending >= _FOLD_IDS:
            self._fold()

    def counts(self) -> Counts:
        """All since the last take()."""
        if self._pending:
            self._fold()
        return self._counts

    def peek(self) -> tuple[Counts, Recency]:
        """What counts() would give, and when each expert was last selected: a copy, from any
        thread. A call that is noted meanwhile may be left out."""
        with self._folding:
            counts, recency, folded = self._counts, self._recency.copy(), dict(self._folded)
            # Rows first: a call that is noted between the two then has its ids and not its rows,
            # so the newest selection is still the newest.
            rows = dict(self._rows)
            noted = {layer: list(calls) for layer, calls in self._noted.items()}
        tokens = max(rows.values(), default=0) - counts.tokens
        found = {n: self._counted(n, _joined(calls)) for n, calls in noted.items()}
        for layer, calls in noted.items():
            recency.add(layer, _joined(calls), max(rows[layer] - folded[layer], 0))
        return self._with(counts, tokens, found), recency

    def take(self) -> Counts:
        """The same as counts(), and starts anew. Between steps only."""
        taken = self.counts()
        with self._folding:
            self._start()
        return taken

    def _start(self) -> None:
        self._counts = Counts.none(self._experts)
        self._rows = dict.fromkeys(self._experts, 0)
        self._folded = dict.fromkeys(self._experts, 0)  # of them, those in the counts
        self._forget_notes()

    def _forget_notes(self) -> None:
        self._noted: dict[int, list[bytes]] = {layer: [] for layer in self._experts}
        self._pending = 0

    def _fold(self) -> None:
        with self._folding:
            self._fold_alone()

    def _fold_alone(self) -> None:
        ids = {layer: _joined(calls) for layer, calls in self._noted.items()}
        found = {layer: self._counted(layer, named) for layer, named in ids.items()}
        # A fold may fall between two layers of a step: those before it are a step ahead.
        tokens = max(self._rows.values()) - self._counts.tokens
        for layer, calls in self.watched.items():
            calls.extend(self._noted[layer])
        for layer, named in ids.items():
            self._recency.add(layer, named, self._rows[layer] - self._folded[layer])
            self._folded[layer] = self._rows[layer]
        self._forget_notes()
        self._counts = self._with(self._counts, tokens, found)

    def _with(self, counts: Counts, tokens: int, found: Mapping[int, Heat]) -> Counts:
        selections = {layer: int(counted.sum()) for layer, counted in found.items()}
        kept = _kept_meanwhile(tokens / self._half_life_tokens)
        heat = {layer: kept * counted for layer, counted in found.items()}
        return counts.then(Counts(tokens, selections, heat), self._half_life_tokens)

    def _counted(self, layer: int, ids: Ids) -> Heat:
        return np.bincount(ids, minlength=self._experts[layer]).astype(np.float64)


def _joined(calls: list[bytes]) -> Ids:
    return np.frombuffer(b"".join(calls), np.int32)


def _kept_meanwhile(half_lives: float) -> float:
    """What is left, on average, of counts that came evenly in this time, at its end."""
    decay = half_lives * math.log(2)
    return -math.expm1(-decay) / decay if decay > 0 else 1.0

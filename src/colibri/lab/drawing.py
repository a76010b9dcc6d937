"""Draws of the bench: which experts a row goes to, and how well that was guessed.

A row depends on the seed and its position, with persistence also on the row before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colibri.routing.base import F32, I32

# Streams of random numbers beside that of the rows.
_RANKS, _GUESSES = 1 << 32, 2 << 32
# Reported for the next layer's router on this layer's state: 0.72, with the shared expert 0.77; the
# embedded model's: 0.73.
DEFAULT_RECALL = 0.75
# How steeply a guess gets worse by rank; fitted to the embedded model's 0.96, 0.85, 0.66, 0.44.
_STEEPNESS = 1.5


@dataclass(frozen=True)
class Drawn:
    """Popularity falls as rank ** -zipf, ranks differing by layer; each of a token's experts is
    kept for the next token with probability `persistence`, and guessed ahead with `recall` on the
    mean of its ranks."""

    zipf: float = 0.0
    persistence: float = 0.0
    recall: float = DEFAULT_RECALL


class DrawnRows:
    """Without replacement, by the Gumbel trick: the k largest of log popularity + noise."""

    def __init__(self, drawn: Drawn, seed: int, experts: Sequence[int], k: int) -> None:
        self._drawn = drawn
        self._seed = seed
        self._k = k
        self._popularity = _popularity(drawn.zipf, seed, experts)
        self._last: I32 | None = None

    def rows(self, start: int, stop: int) -> tuple[I32, F32 | None]:
        """To be asked in ascending order. ids [rows, layers, k]; weights are the router's own."""
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


def right_by_rank(recall: float, k: int) -> NDArray[np.float64]:
    """How often a guess is right, best rank first [k]: 1 - (1 - recall) (a + 1) x^a at the middle x
    of each rank's share of 0 to 1. Its mean over x is the recall; a is 1.5, or less where the last
    rank would be right less than never."""
    steepness = _STEEPNESS
    if recall < 1:
        steepness = min(_STEEPNESS, recall / (1 - recall))
    x = (np.arange(k) + 0.5) / k
    return 1 - (1 - recall) * (steepness + 1) * x**steepness


def guesses(ids: I32, experts: Sequence[int], recall: float, seed: int, start: int) -> I32:
    """For rows from `start` on, best guess first: each id with the probability of its rank, else
    any expert."""
    made = np.empty_like(ids)
    limit = np.asarray(experts)[:, None]
    right = right_by_rank(recall, ids.shape[-1])
    for offset, row in enumerate(ids):
        rng = np.random.default_rng((seed, _GUESSES, start + offset))
        wrong = rng.random(row.shape) >= right
        made[offset] = np.where(wrong, rng.integers(0, limit, row.shape), row)
    return made


def _popularity(zipf: float, seed: int, experts: Sequence[int]) -> NDArray[np.float64]:
    """log popularity [layers, most experts]; -inf where a layer has no such expert."""
    table = np.full((len(experts), max(experts)), -np.inf)
    for index, count in enumerate(experts):
        ranks = np.random.default_rng((seed, _RANKS, index)).permutation(count) + 1
        table[index, :count] = -zipf * np.log(ranks)
    return table

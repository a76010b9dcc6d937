"""Fewer experts where few hold most of the weight.

Of a token's chosen experts the heaviest stay that together hold the share p of their weight, the
one that crosses it included. Where the family's weights add up to a fixed total, the remaining ones
are scaled to it; where it leaves them as they are, so does this.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colibri.kernels.distinct import distinct
from colibri.kernels.layer import RouteRule
from colibri.routing.base import F32, I32, Router, RuledRouter, rescaled


@dataclass(frozen=True)
class TopPRouter:
    inner: Router
    p: float
    total: float | None  # as FamilyRouter.total

    @property
    def k(self) -> int:
        return self.inner.k

    def rule(self, experts: int) -> RouteRule | None:
        return self.inner.rule(experts) if isinstance(self.inner, RuledRouter) else None

    def chosen(self, ids: I32, weights: F32) -> tuple[I32, F32]:
        return trimmed(ids, weights, self.p, self.total)

    def route(self, logits: F32) -> tuple[I32, F32]:
        return self.chosen(*self.inner.route(logits))

    def guess(self, logits: F32) -> I32:
        return self.inner.guess(logits)


def trimmed(ids: I32, weights: F32, p: float, total: float | None) -> tuple[I32, F32]:
    """ids, weights [tokens, at most k], heaviest first: as wide as the widest token needs.

    A narrower token is filled up with experts that other tokens of the call want anyway, at weight
    0: that reads nothing more, and adding 0 changes no bit.
    """
    order = np.argsort(-weights, axis=1, kind="stable")
    ids, weights = (
        np.take_along_axis(ids, order, axis=1),
        np.take_along_axis(weights, order, axis=1),
    )
    sums = np.cumsum(weights, axis=1, dtype=np.float64)
    counts = 1 + (sums[:, :-1] < p * sums[:, -1:]).sum(axis=1, keepdims=True)
    width = int(counts.max())
    kept = np.arange(width) < counts
    full = counts == ids.shape[1]  # untouched, to the bit
    ids, weights = ids[:, :width], np.where(kept, weights[:, :width], np.float32(0))
    if total is not None:
        weights = np.where(full, weights, rescaled(weights, total))
    return (ids.copy() if kept.all() else _filled(ids, kept)), np.ascontiguousarray(weights)


def _filled(ids: I32, kept: NDArray[np.bool_]) -> I32:
    """Experts of the others in the places that are not kept. There are enough: the widest token has
    `width` of them, all distinct."""
    wanted = distinct(ids[kept])
    free = np.ones((len(ids), len(wanted)), np.bool_)
    rows = np.nonzero(kept)[0]
    free[rows, np.searchsorted(wanted, ids[kept])] = False
    others = wanted[np.argsort(~free, axis=1, kind="stable")[:, : ids.shape[1]]]
    place = np.arange(ids.shape[1]) - kept.sum(axis=1, keepdims=True)
    return np.where(kept, ids, np.take_along_axis(others, np.maximum(place, 0), axis=1))

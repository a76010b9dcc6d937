"""Experts that are at hand, rather than slightly better ones on disk.

A token's J best experts are kept. The other places go, best first, to those of its M best that are
resident, and only then to the absent ones. (Cf. arXiv 2412.00099, "Mixture of Cache-Conditional
Experts", and CACHE_ROUTE of the C engine.) Which experts that are depends on what was asked before.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colibri.routing.base import F32, I32, FamilyRouter

Resident = Callable[[int], NDArray[np.bool_]]  # of a layer: [experts], whether each is at hand


class Residency:
    """What cache-aware routers see of the cache."""

    def __init__(self, at_hand: Resident) -> None:
        self._at_hand = at_hand
        self._kept: dict[int, NDArray[np.bool_]] = {}

    def __call__(self, layer: int) -> NDArray[np.bool_]:
        kept = self._kept.pop(layer, None)
        return self._at_hand(layer) if kept is None else kept

    def keep(self, layers: Iterable[int]) -> None:
        """The next time that one of these layers is asked for it is as it is now: measuring must
        not put the experts in reach that it is to measure the lack of."""
        self._kept = {layer: self._at_hand(layer).copy() for layer in layers}


@dataclass
class Swaps:
    """Experts chosen, and those among them that the family's rule would not have chosen."""

    chosen: int = 0
    swapped: int = 0


@dataclass(frozen=True)
class CacheAwareRouter:
    own: FamilyRouter
    ranked: FamilyRouter  # the same rule, choosing M
    keep: int  # J
    layer: int
    resident: Resident
    swaps: Swaps

    @property
    def k(self) -> int:
        return self.own.k

    def route(self, logits: F32) -> tuple[I32, F32]:
        own_ids, own_weights = self.own.route(logits)
        ranked, _ = self.ranked.route(logits)
        places = self._places(ranked)
        self.swaps.chosen += places.size
        swapped = places >= self.k
        if not swapped.any():
            return own_ids, own_weights
        self.swaps.swapped += int(swapped.sum())
        ids = np.take_along_axis(ranked, places, axis=1)
        # A token whose choice is the family's keeps the bits of its weights.
        theirs = swapped.any(axis=1, keepdims=True)
        return ids, np.where(theirs, self.own.weights(logits, ids), own_weights)

    def guess(self, logits: F32) -> I32:
        return self.own.guess(logits)

    def _places(self, ids: I32) -> NDArray[np.int64]:
        """Of each row's M best ids, the k places to take, ascending."""
        preferred = self.resident(self.layer)[ids]
        preferred[:, : self.keep] = True
        places = np.argsort(~preferred, axis=1, kind="stable")[:, : self.k]
        return np.sort(places, axis=1)

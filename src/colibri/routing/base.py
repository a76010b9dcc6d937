"""How router logits become a choice of experts."""

from collections.abc import Callable
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from colibri.kernels.layer import RouteRule

F32 = NDArray[np.float32]
I32 = NDArray[np.int32]


class Router(Protocol):
    @property
    def k(self) -> int:
        """Experts a token."""
        ...

    def route(self, logits: F32) -> tuple[I32, F32]:
        """logits [tokens, experts] -> topk_ids, topk_weights [tokens, k], best first, ties to the
        lower id."""
        ...

    def guess(self, logits: F32) -> I32:
        """topk_ids for logits that are an estimate made ahead of time; route() knows nothing of
        it."""
        ...


Chosen = Callable[[I32, F32], tuple[I32, F32]]


@runtime_checkable
class RuledRouter(Router, Protocol):
    """A router whose rule a kernel knows: logits and choice are then one call.

    One that does something to the rule's choice has a method `chosen` too, as Chosen: called once
    for each choice, it gives the ids and weights to use.
    """

    def rule(self, experts: int) -> RouteRule | None:
        """What route() does to logits [tokens, experts], but for chosen(); None: no kernel does."""
        ...


@runtime_checkable
class FamilyRouter(RuledRouter, Protocol):
    """A family's own router, as far as approximations build on it (docs/approximate.md)."""

    @property
    def total(self) -> float | None:
        """What the weights of a token add up to; None: they are left as they are."""
        ...

    def with_k(self, k: int) -> "FamilyRouter":
        """The same rule, choosing k experts."""
        ...

    def reach(self, experts: int) -> int:
        """How many of so many experts the rule can choose for one token."""
        ...

    def scores(self, logits: F32) -> F32:
        """[tokens, experts], positive: what weights are made of."""
        ...

    def weights(self, logits: F32, ids: I32) -> F32:
        """What the rule would weight these experts with, had it chosen them; [tokens, k] each.
        Equal to its own weights but for rounding."""
        ...


# The router to use in a layer, given its number, the family's own router and the number of experts.
RouterFactory = Callable[[int, Router, int], Router]


def rescaled(weights: F32, total: float) -> F32:
    """Weights [tokens, k] in the same proportions, those of a token adding up to `total`."""
    # A cumulative sum has one order on every machine; the last term is the families' own guard.
    sums = np.cumsum(weights, axis=1, dtype=np.float64)[:, -1:] + 1e-20
    return (weights * (total / sums)).astype(np.float32)


def own_router(layer: int, router: Router, experts: int) -> Router:
    """The family's."""
    return router

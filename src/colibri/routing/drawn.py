"""Experts drawn at random: `gumbel` and `soft`. Weights are the family's, as if it had chosen so.

Adding Gumbel noise and taking the k best draws k of them without replacement, each in proportion to
the exponential of what was perturbed (Kool, van Hoof and Welling, arXiv 1903.06059).
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from colibri.kernels.routing import softmax_topk
from colibri.routing.base import F32, I32, FamilyRouter
from colibri.routing.noise import Noise, log

_LEAST_SCORE = 1e-30


@dataclass(frozen=True)
class DrawnRouter(ABC):
    """`temperature`: how much the noise counts beside what the router says."""

    own: FamilyRouter
    layer: int
    noise: Noise
    temperature: float

    @property
    def k(self) -> int:
        return self.own.k

    def route(self, logits: F32) -> tuple[I32, F32]:
        noise = self.noise.gumbel(self.layer, logits.shape[1])
        ids = self._drawn(logits, np.float32(self.temperature) * noise)
        return ids, self.own.weights(logits, ids)

    def guess(self, logits: F32) -> I32:
        return self.own.guess(logits)

    @abstractmethod
    def _drawn(self, logits: F32, noise: F32) -> I32: ...


class GumbelRouter(DrawnRouter):
    """The family's rule, groups and bias included, on router logits + temperature * noise."""

    def _drawn(self, logits: F32, noise: F32) -> I32:
        return self.own.route(logits + noise)[0]


class SoftRouter(DrawnRouter):
    """Experts in proportion to the router's scores ** (1 / temperature); no groups, no bias."""

    def _drawn(self, logits: F32, noise: F32) -> I32:
        self.own.guess(logits)  # refuses logits that are not finite
        scores = log(np.maximum(self.own.scores(logits), _LEAST_SCORE).astype(np.float64))
        return softmax_topk((scores + noise).astype(np.float32), self.k, False)[0]

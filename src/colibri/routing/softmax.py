"""Softmax over all experts, the k best; their weights as they are (OLMoE, Qwen2) or divided by
their sum."""

from dataclasses import dataclass, replace

import numpy as np

from colibri.kernels import ops
from colibri.kernels.layer import RouteRule, softmax_rule
from colibri.kernels.routing import softmax_topk
from colibri.routing.base import F32, I32, rescaled


@dataclass(frozen=True)
class SoftmaxRouter:
    k: int
    renormalize: bool

    def route(self, logits: F32) -> tuple[I32, F32]:
        return softmax_topk(logits, self.k, self.renormalize)

    def rule(self, experts: int) -> RouteRule:
        return softmax_rule(experts, self.k, self.renormalize)

    def guess(self, logits: F32) -> I32:
        return self.route(logits)[0]

    @property
    def total(self) -> float | None:
        return 1.0 if self.renormalize else None

    def with_k(self, k: int) -> "SoftmaxRouter":
        return replace(self, k=k)

    def reach(self, experts: int) -> int:
        return experts

    def scores(self, logits: F32) -> F32:
        return ops.softmax(logits)

    def weights(self, logits: F32, ids: I32) -> F32:
        chosen = np.take_along_axis(self.scores(logits), ids, axis=1)
        return rescaled(chosen, 1.0) if self.renormalize else chosen

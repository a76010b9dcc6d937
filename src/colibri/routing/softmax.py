"""Softmax over all experts, the k best; their weights as they are (OLMoE, Qwen2) or divided by
their sum."""

from dataclasses import dataclass

from colibri.kernels.layer import RouteRule, softmax_rule
from colibri.kernels.routing import softmax_topk
from colibri.routing.base import F32, I32


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

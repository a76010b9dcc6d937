"""DeepSeek V3's rule: sigmoid scores chosen by score + correction bias within the best groups,
weighted without it."""

from dataclasses import dataclass

from colibri.kernels.layer import RouteRule, sigmoid_rule
from colibri.kernels.routing import sigmoid_topk
from colibri.routing.base import F32, I32


@dataclass(frozen=True)
class SigmoidRouter:
    k: int
    bias: F32  # [experts]
    groups: int
    topk_groups: int
    renormalize: bool
    scale: float

    def route(self, logits: F32) -> tuple[I32, F32]:
        return sigmoid_topk(
            logits, self.bias, self.k, self.groups, self.topk_groups, self.renormalize, self.scale
        )

    def rule(self, experts: int) -> RouteRule:
        return sigmoid_rule(
            self.bias, self.k, self.groups, self.topk_groups, self.renormalize, self.scale
        )

    def guess(self, logits: F32) -> I32:
        return self.route(logits)[0]

"""DeepSeek V3's rule: sigmoid scores chosen by score + correction bias within the best groups,
weighted without it."""

from dataclasses import dataclass, replace

import numpy as np

from colibri.kernels import ops
from colibri.kernels.layer import RouteRule, sigmoid_rule
from colibri.kernels.routing import sigmoid_topk
from colibri.routing.base import F32, I32, rescaled


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

    @property
    def total(self) -> float | None:
        return self.scale if self.renormalize else None

    def with_k(self, k: int) -> "SigmoidRouter":
        return replace(self, k=k)

    def reach(self, experts: int) -> int:
        return experts // self.groups * self.topk_groups

    def scores(self, logits: F32) -> F32:
        return ops.sigmoid(logits)

    def weights(self, logits: F32, ids: I32) -> F32:
        chosen = np.take_along_axis(self.scores(logits), ids, axis=1)
        return rescaled(chosen, self.scale) if self.renormalize else chosen * np.float32(self.scale)

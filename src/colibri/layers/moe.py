"""Routed experts, staged by an executor, plus a shared expert with or without a gate."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colibri.experts.base import ExpertExecutor
from colibri.kernels import ops
from colibri.layers.linear import Linear
from colibri.layers.mlp import SwiGLU
from colibri.layers.nonfinite import named
from colibri.layers.step import Step
from colibri.routing.base import Router

F32 = NDArray[np.float32]


@dataclass(frozen=True)
class MoE:
    layer: int
    gate: Linear  # router_logits, fp32
    router: Router
    experts: ExpertExecutor
    shared: SwiGLU | None = None
    shared_gate: Linear | None = None

    def __call__(self, x: F32, step: Step) -> F32:  # [rows, hidden]
        step.clock.enter("route")
        with named(self.layer):
            topk_ids, topk_weights = self.router.route(self.gate(x))
        step.clock.enter("experts")
        shared = None

        def meanwhile() -> None:
            nonlocal shared
            step.clock.enter("shared_expert")
            shared = self._shared(x)
            if step.guess is not None:
                step.clock.enter("route")
                step.guess(self.layer, shared)
            step.clock.enter("experts")

        y = self.experts.run(self.layer, x, topk_ids, topk_weights, meanwhile)
        if shared is not None:
            y += shared
        return y

    def _shared(self, x: F32) -> F32 | None:
        if self.shared is None:
            return None
        shared = self.shared(x)
        if self.shared_gate is not None:
            shared *= ops.sigmoid(self.shared_gate(x))
        return shared

"""Routed experts, staged by an executor, plus a shared expert with or without a gate."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colibri.experts.base import ExpertExecutor
from colibri.kernels import ops
from colibri.layers.linear import Linear
from colibri.layers.mlp import SwiGLU
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

    def __call__(self, x: F32, guess: Callable[[F32 | None], None] | None = None) -> F32:
        """x [rows, hidden]. guess: called with the shared expert's output while reads go on."""
        shared = None

        def meanwhile() -> None:
            nonlocal shared
            shared = self._shared(x)
            if guess is not None:
                guess(shared)

        topk_ids, topk_weights = self.router.route(self.gate(x))
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

"""Routed experts, staged by an executor, plus a shared expert with or without a gate."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from colibri.experts.base import ExpertExecutor
from colibri.kernels import ops
from colibri.kernels.layer import Projector, RouteRule, norm_route
from colibri.kernels.routing import Choice
from colibri.layers.linear import Linear, Projections
from colibri.layers.mlp import SwiGLU
from colibri.layers.nonfinite import not_finite
from colibri.layers.norm import RMSNorm
from colibri.layers.step import Step
from colibri.routing.base import Chosen, Router, RuledRouter

F32 = NDArray[np.float32]


@dataclass(frozen=True)
class MoE:
    layer: int
    gate: Linear  # router_logits, fp32
    router: Router
    experts: ExpertExecutor
    shared: SwiGLU | None = None
    shared_gate: Linear | None = None
    limit: float = math.inf  # of the experts' SwiGLU; the shared one has its own
    exact: "MoE | None" = None  # where gate or router are not the family's: the layer with those

    def __call__(self, x: F32, y: F32 | None, norm: RMSNorm, step: Step) -> F32:
        step.clock.enter("route")
        try:
            x, (topk_ids, topk_weights) = self._route(x, y, norm)
        except ValueError as error:
            raise not_finite(self.layer, error) from error
        step.clock.enter("experts")
        if self.shared is None and step.guess is None:
            return self.experts.run(self.layer, x, topk_ids, topk_weights, limit=self.limit)
        shared = None

        def meanwhile() -> None:
            nonlocal shared
            step.clock.enter("shared_expert")
            shared = self._shared(x)
            if step.guess is not None:
                step.clock.enter("route")
                step.guess(self.layer, shared)
            step.clock.enter("experts")

        y = self.experts.run(self.layer, x, topk_ids, topk_weights, meanwhile, self.limit)
        if shared is not None:
            y += shared
        return y

    def _route(self, x: F32, y: F32 | None, norm: RMSNorm) -> tuple[F32, Choice]:
        """The norm of x + y, and where its rows go."""
        if self._ruled is None:
            normed, (logits,) = self._projector.normed(x, y, norm.kernel)
            return normed, self.router.route(logits)
        rule, chosen = self._ruled
        normed, choice = norm_route(x, y, norm.kernel, self._projector, rule, self.router.k)
        return normed, choice if chosen is None else chosen(*choice)

    @cached_property
    def _projector(self) -> Projector:
        return Projections(self.gate).kernel

    @cached_property
    def _ruled(self) -> tuple[RouteRule, Chosen | None] | None:
        router = self.router
        rule = router.rule(self.gate.weight.rows) if isinstance(router, RuledRouter) else None
        return None if rule is None else (rule, getattr(router, "chosen", None))

    def _shared(self, x: F32) -> F32 | None:
        if self.shared is None:
            return None
        shared = self.shared(x)
        if self.shared_gate is not None:
            shared *= ops.sigmoid(self.shared_gate(x))
        return shared

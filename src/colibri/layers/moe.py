"""Routed experts, staged by an executor, plus a shared expert with or without a gate."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from colibri.experts.base import ExpertExecutor, LocalExecutor
from colibri.kernels import ops
from colibri.kernels.layer import Projector, RoutedExperts, RouteRule, norm_route
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
        fused, named = self.fused, 0
        try:
            if fused and step.guess is None and fused.executor.settled:
                x, choice, out, named, chosen = fused.kernel(x, y, norm.kernel)
            else:
                x, choice = self._route(x, y, norm)
        except ValueError as error:
            raise not_finite(self.layer, error) from error
        if fused is None or not named:
            step.clock.enter("experts")
            return self.run(x, choice, step)
        step.clock.enter("experts", at=chosen)
        fused.executor.ran(self.layer, choice[0], named)
        if self.shared is not None:
            step.clock.enter("shared_expert")
            out += self._shared(x)
        return out

    def run(self, x: F32, choice: Choice, step: Step) -> F32:
        """By the executor: some experts may be missing, or guesses are to be made."""
        if self.shared is None and step.guess is None:
            return self.experts.run(self.layer, x, *choice, limit=self.limit)
        shared = None

        def meanwhile() -> None:
            nonlocal shared
            if self.shared is not None:
                step.clock.enter("shared_expert")
                shared = self._shared(x)
            if step.guess is not None:
                step.clock.enter("route")
                step.guess(self.layer, shared)
            step.clock.enter("experts")

        y = self.experts.run(self.layer, x, *choice, meanwhile, self.limit)
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
    def fused(self) -> "Fused | None":
        """Where the choice is the rule's own."""
        if self._ruled is None or self._ruled[1] is not None:
            return None
        if not isinstance(self.experts, LocalExecutor):
            return None
        tables = self._ruled[0], self.router.k, self.experts.table(self.layer)
        return Fused(self.experts, RoutedExperts(self._projector, *tables, self.limit))

    @cached_property
    def _projector(self) -> Projector:
        return Projections(self.gate).kernel

    @cached_property
    def _ruled(self) -> tuple[RouteRule, Chosen | None] | None:
        router = self.router
        rule = router.rule(self.gate.weight.rows) if isinstance(router, RuledRouter) else None
        return None if rule is None else (rule, getattr(router, "chosen", None))

    def _shared(self, x: F32) -> F32:
        assert self.shared is not None
        shared = self.shared(x)
        if self.shared_gate is not None:
            shared *= ops.sigmoid(self.shared_gate(x))
        return shared


@dataclass(frozen=True)
class Fused:
    """Router and experts in one call."""

    executor: LocalExecutor
    kernel: RoutedExperts

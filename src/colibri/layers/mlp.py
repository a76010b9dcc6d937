"""SwiGLU MLPs: a shared expert, or a layer's dense second half."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colibri.kernels.layer import swiglu
from colibri.layers.linear import Linear, Projections
from colibri.layers.norm import RMSNorm
from colibri.layers.step import Step

F32 = NDArray[np.float32]


class SwiGLU:
    """`limit`: what comes from gate is at most it, and what comes from up within +-limit."""

    def __init__(self, gate: Linear, up: Linear, down: Linear, limit: float = math.inf) -> None:
        self.gate_up = Projections(gate, up)
        self.down = Projections(down)
        self.limit = limit

    def __call__(self, x: F32) -> F32:  # [tokens, hidden]
        return swiglu(x, self.gate_up.kernel, self.down.kernel, self.limit)


@dataclass(frozen=True)
class DenseMLP:
    """A layer's second half without experts."""

    mlp: SwiGLU

    def __call__(self, x: F32, y: F32 | None, norm: RMSNorm, step: Step) -> F32:
        step.clock.enter("dense")
        return self.mlp(norm.added(x, y))

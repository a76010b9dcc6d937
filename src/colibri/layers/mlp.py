"""SwiGLU: down(silu(gate x) * up x)."""

import numpy as np
from numpy.typing import NDArray

from colibri.kernels import ops
from colibri.layers.linear import Linear, Projections
from colibri.layers.step import Step

F32 = NDArray[np.float32]


class SwiGLU:
    def __init__(self, gate: Linear, up: Linear, down: Linear) -> None:
        self.gate_up = Projections(gate, up)
        self.down = down

    def __call__(self, x: F32, step: Step | None = None) -> F32:  # [tokens, hidden]
        return self.down(ops.silu_mul(*self.gate_up(x)))

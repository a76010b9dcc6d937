"""y = W x + b, W packed or as the checkpoint has it; several of them on one input."""

import numpy as np
from numpy.typing import NDArray

from colibri.formats.base import Matrix
from colibri.kernels.layer import Projector
from colibri.kernels.matmul import matmul
from colibri.layers.norm import RMSNorm

F32 = NDArray[np.float32]


class Linear:
    def __init__(self, weight: Matrix, planes: int = 2, bias: F32 | None = None) -> None:
        self.weight = weight
        self.planes = planes
        self.bias = bias

    def __call__(self, x: F32) -> F32:  # [tokens, inputs] -> [tokens, outputs]
        y = matmul(x, self.weight, self.planes)
        if self.bias is not None:
            y += self.bias
        return y


class Projections:
    """Linears that share their input: the outputs of each, in one call."""

    def __init__(self, *linears: Linear) -> None:
        planes = linears[0].planes
        if any(linear.planes != planes for linear in linears):
            raise ValueError("linears that share an input must share `planes`")
        weights, biases = [one.weight for one in linears], [one.bias for one in linears]
        self.kernel = Projector(weights, biases, planes)

    def __call__(self, x: F32) -> list[F32]:  # [tokens, inputs] -> [tokens, outputs] each
        return self.kernel(x)

    def normed(self, x: F32, y: F32 | None, norm: RMSNorm) -> tuple[F32, list[F32]]:
        """The norm of x + y (see kernels/layer.py), and the outputs for it."""
        return self.kernel.normed(x, y, norm.kernel)

"""y = W x + b, W packed or as the checkpoint has it; several of them on one input."""

import numpy as np
from numpy.typing import NDArray

from colibri.kernels.matmul import matmul, matmul_many
from colibri.kernels.packing import Matrix

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
        self.planes = linears[0].planes
        self._weights = [linear.weight for linear in linears]
        self._biases = [
            (i, linear.bias) for i, linear in enumerate(linears) if linear.bias is not None
        ]
        if any(linear.planes != self.planes for linear in linears):
            raise ValueError("linears that share an input must share `planes`")

    def __call__(self, x: F32) -> list[F32]:  # [tokens, inputs] -> [tokens, outputs] each
        ys = matmul_many(x, self._weights, self.planes)
        for i, bias in self._biases:
            ys[i] += bias
        return ys

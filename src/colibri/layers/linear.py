"""y = W x + b, W packed or as the checkpoint has it."""

import numpy as np
from numpy.typing import NDArray

from colibri.kernels.matmul import matmul
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

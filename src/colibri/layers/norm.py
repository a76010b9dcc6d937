"""Root-mean-square and layer normalisation over the last dimension."""

import numpy as np
from numpy.typing import NDArray

from colibri.kernels import ops

F32 = NDArray[np.float32]


class RMSNorm:
    def __init__(self, weight: F32, eps: float) -> None:
        self.weight = weight
        self.eps = eps

    def __call__(self, x: F32) -> F32:
        return ops.rms_norm(x, self.weight, self.eps)


class LayerNorm:
    def __init__(self, weight: F32, bias: F32, eps: float) -> None:
        self.weight = weight
        self.bias = bias
        self.eps = eps

    def __call__(self, x: F32) -> F32:
        return ops.layer_norm(x, self.weight, self.bias, self.eps)

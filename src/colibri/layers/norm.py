"""Root-mean-square and layer normalisation over the last dimension."""

import numpy as np
from numpy.typing import NDArray

from colibri.kernels import ops
from colibri.kernels.layer import norm

F32 = NDArray[np.float32]


class RMSNorm:
    def __init__(self, weight: F32, eps: float) -> None:
        self.weight = weight
        self.eps = eps
        self.kernel = norm(weight, eps)

    def __call__(self, x: F32, out: F32 | None = None) -> F32:
        return ops.rms_norm(x, self.weight, self.eps, out)

    def added(self, x: F32, y: F32 | None) -> F32:
        """x += y in place, where there is a y; then the norm of x, in y's memory."""
        if y is None:
            return self(x)
        return ops.add_rms_norm(x, y, self.weight, self.eps)


class LayerNorm:
    def __init__(self, weight: F32, bias: F32, eps: float) -> None:
        self.weight = weight
        self.bias = bias
        self.eps = eps

    def __call__(self, x: F32) -> F32:
        return ops.layer_norm(x, self.weight, self.bias, self.eps)

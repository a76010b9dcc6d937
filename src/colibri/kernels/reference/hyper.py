"""The meaning of kernels/hyper.py in plain NumPy and double precision."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]


def _sigmoid(x: Doubles) -> Doubles:
    y: Doubles = np.exp(-np.logaddexp(0, -x))
    return y


@dataclass(frozen=True)
class HyperMix:
    fn: Floats
    base: Floats
    scale: Floats
    streams: int
    iterations: int
    norm_eps: float
    eps: float

    def weights(self, x: Floats) -> tuple[Doubles, Doubles, Doubles]:
        """Of x [rows, streams, n]: into and out [rows, streams], between [rows, streams, streams]
        (from, to)."""
        n = self.streams
        f = x.reshape(len(x), -1).astype(np.float64)
        f = f / np.sqrt((f * f).mean(1, keepdims=True) + self.norm_eps)
        kinds = np.repeat(self.scale.astype(np.float64), [n, n, n * n])
        m: Doubles = f @ self.fn.T.astype(np.float64) * kinds + self.base
        between = m[:, 2 * n :].reshape(-1, n, n)
        between = np.exp(between - between.max(2, keepdims=True))
        between = between / between.sum(2, keepdims=True) + self.eps
        for axis in [1, *[2, 1] * (self.iterations - 1)]:
            between = between / (between.sum(axis, keepdims=True) + self.eps)
        return _sigmoid(m[:, :n]) + self.eps, 2 * _sigmoid(m[:, n : 2 * n]), between

    def enter(self, x: Floats) -> tuple[Doubles, Doubles, Doubles]:
        """What the half reads, the weights of its output, the streams mixed."""
        into, out, between = self.weights(x)
        mixed = np.einsum("rij,rin->rjn", between, x.astype(np.float64))
        return np.einsum("ri,rin->rn", into, x.astype(np.float64)), out, mixed

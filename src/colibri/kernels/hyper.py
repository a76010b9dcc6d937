"""Hyper-connections (mHC): the residual of a row is several streams, mixed by weights that follow
from them.

For a half of a layer, with f the streams of a row on end, brought to a root mean square of 1, and
m = fn f, in three parts (one a stream, one a stream, one from each stream to each):

    into    = sigmoid(m * scale + base) + eps
    out     = 2 sigmoid(m * scale + base)
    between = softmax over the last axis of (m * scale + base), + eps; then its columns are divided
              by their sums + eps, and, `iterations` - 1 times, its rows and its columns

The half reads sum(into[i] x[i]); afterwards x[j] = out[j] y + sum over i of between[i, j] x[i].
All in fp32, sums over streams in ascending order; a row's bits do not depend on the others.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from colibri import _native
from colibri.formats.base import Matrix

F32 = npt.NDArray[np.float32]
MAX_STREAMS = 8


class HyperMix:
    """The weights of one half: fn [mixes, streams * n], dense, base [mixes], scale [3], where there
    are (2 + streams) * streams mixes. ValueError: an array has another shape."""

    def __init__(
        self,
        fn: Matrix,
        base: F32,
        scale: F32,
        *,
        streams: int,
        iterations: int,
        norm_eps: float,
        eps: float,
    ) -> None:
        self._native = _native.hyper_mix(fn.native, base, scale, streams, iterations, norm_eps, eps)

    def enter(self, x: F32) -> tuple[F32, F32]:
        """x [rows, streams, n] is mixed in place; what the half reads [rows, n], and the weights
        [rows, streams] by which `leave` adds what it makes."""
        h = np.empty((len(x), x.shape[2]), np.float32)
        out = np.empty(x.shape[:2], np.float32)
        _native.hyper_enter(self._native, x, h, out)
        return h, out


def leave(x: F32, out: F32, y: F32) -> None:
    """x[r, j] += out[r, j] * y[r], for y [rows, n]."""
    _native.hyper_leave(x, out, y)


def mean(x: F32) -> F32:
    """[rows, streams, n] -> [rows, n]."""
    y = np.empty((len(x), x.shape[2]), np.float32)
    _native.hyper_mean(x, y)
    return y

"""Products with packed and dense weights, and embedding rows.

The bits of an output element depend on its input row, its weights and `planes` only: not on the
batch, the threads or the CPU path. A non-finite input gives NaN in its row, never a number.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from colibri import _native
from colibri.formats.base import Matrix

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]


def matmul(x: F32, w: Matrix, planes: int = 2, out: F32 | None = None) -> F32:
    """x [T, K] times w [N, K] transposed -> [T, N].

    With packed weights, x is quantised to int8 per 64 inputs in `planes` (1 or 2) planes.
    """
    y = np.empty((len(x), w.rows), np.float32) if out is None else out
    _native.matmul(x, w.native, planes, y)
    return y


def matmul_heads(x: F32, ws: Matrix, planes: int = 2) -> F32:
    """x [T, h, K], ws [h * n, K] -> [T, h, n]: head i times rows i*n .. (i+1)*n.

    n is a multiple of 16 when ws is packed.
    """
    y = np.empty((len(x), ws.rows), np.float32)
    _native.matmul_heads(x, ws.native, planes, y)
    return y.reshape(*x.shape[:2], -1)


def embed(ids: I64, w: Matrix) -> F32:
    """The rows of w named by ids [T] -> [T, K], exactly as stored; an unknown id: IndexError."""
    y = np.empty((len(ids), w.cols), np.float32)
    _native.embed(ids, w.native, y)
    return y

"""Products with packed and dense weights, and embedding rows.

The bits of an output element depend on its input row, its weights and `planes` only: not on the
batch, the threads or the CPU path. A non-finite input gives NaN in its row, never a number.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from colibri import _native
from colibri.kernels.packing import Matrix, PackedMatrix, bits_of

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]


def matmul(x: F32, w: Matrix, planes: int = 2, out: F32 | None = None) -> F32:
    """x [T, K] times w [N, K] transposed -> [T, N].

    With packed weights, x is quantised to int8 per 64 inputs in `planes` (1 or 2) planes.
    """
    if x.ndim != 2:
        raise ValueError(f"x must be [tokens, inputs], not {x.shape}")
    y = np.empty((len(x), w.rows), np.float32) if out is None else out
    _product(x[:, None], w, planes, y)
    return y


def matmul_heads(x: F32, ws: Matrix, planes: int = 2) -> F32:
    """x [T, h, K], ws [h * n, K] -> [T, h, n]: head i times rows i*n .. (i+1)*n.

    n is a multiple of 16 when ws is packed.
    """
    if x.ndim != 3:
        raise ValueError(f"x must be [tokens, heads, inputs], not {x.shape}")
    y = np.empty((len(x), ws.rows), np.float32)
    _product(x, ws, planes, y)
    return y.reshape(*x.shape[:2], -1)


def embed(ids: I64, w: Matrix) -> F32:
    """The rows of w named by ids [T] -> [T, K], exactly as stored; an unknown id: IndexError."""
    y = np.empty((len(ids), w.cols), np.float32)
    if isinstance(w, PackedMatrix):
        _native.embed_packed(ids, w.data, bits_of(w.scheme), w.rows, w.multiplier, y)
    else:
        _native.embed_dense(ids, w.data, y)
    return y


def _product(x: F32, w: Matrix, planes: int, y: F32) -> None:
    if isinstance(w, PackedMatrix):
        if x.shape[2] != w.cols:
            raise ValueError(f"x has {x.shape[2]} inputs, the weights {w.cols}")
        _native.matmul_packed(x, w.data, bits_of(w.scheme), w.rows, w.multiplier, planes, y)
    else:
        _native.matmul_dense(x, w.data, y)

"""The meaning of kernels/layer.py in plain NumPy: the steps of reference/{ops,matmul}.py in turn.

Weights are float32 matrices, so that the twin has one product; x and y are not changed.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colibri.kernels.reference import ops
from colibri.kernels.reference.matmul import matmul_dense

F32 = NDArray[np.float32]


@dataclass(frozen=True)
class Norm:
    weight: F32
    eps: float

    def __call__(self, x: F32) -> F32:
        return ops.rms_norm(x, self.weight, self.eps)


def project(x: F32, ws: Sequence[F32], biases: Sequence[F32 | None]) -> list[F32]:
    products = [matmul_dense(x, w) for w in ws]
    return [y if b is None else y + b for y, b in zip(products, biases, strict=True)]


def swiglu(x: F32, gate: F32, up: F32, down: F32, limit: float = np.inf) -> F32:
    return matmul_dense(ops.silu_mul(matmul_dense(x, gate), matmul_dense(x, up), limit), down)


@dataclass(frozen=True)
class Heads:
    heads: int
    kv_heads: int
    head_dim: int
    q_norm: Norm | None = None
    k_norm: Norm | None = None
    norm_per_head: bool = False
    clip: float = np.inf
    window: int | None = None
    interleaved: bool = False
    gated: bool = False

    def prepared(self, y: F32, norm: Norm | None, heads: int) -> F32:
        if norm is not None and not self.norm_per_head:
            y = norm(y)
        y = np.clip(y, -self.clip, self.clip).reshape(len(y), heads, self.head_dim)
        return norm(y) if norm is not None and self.norm_per_head else y


def grouped_attention(
    x: F32,
    norm: Norm,
    qkv: Sequence[F32],
    biases: Sequence[F32 | None],
    h: Heads,
    o_proj: F32,
    positions: NDArray[np.int64],
    cos: F32,
    sin: F32,
    caches: Sequence[tuple[F32, F32]],
    stops: Sequence[int],
) -> F32:
    """caches: each sequence's keys and values [length, kv_heads, head_dim] before the step."""
    projected, gate = project(norm(x), qkv, biases), None
    if h.gated:
        q, gate = np.split(projected[0].reshape(len(x), h.heads, -1), 2, 2)
        projected[0] = q.reshape(len(x), -1)
    q, k, v = (
        h.prepared(y, own, heads)
        for y, own, heads in zip(
            projected, (h.q_norm, h.k_norm, None), (h.heads, h.kv_heads, h.kv_heads), strict=True
        )
    )
    for y in (q, k):
        ops.apply_rope(y, cos, sin, 0, h.interleaved)
    out, start = [], 0
    for (keys, values), stop in zip(caches, stops, strict=True):
        own = slice(start, stop)
        keys, values = np.concatenate([keys, k[own]]), np.concatenate([values, v[own]])
        scale = h.head_dim**-0.5
        out.append(ops.attend(q[own], keys, values, positions[own], scale, window=h.window))
        start = stop
    attended = np.concatenate(out)
    if gate is not None:
        attended *= ops.sigmoid(gate)
    return matmul_dense(attended.reshape(len(x), -1), o_proj)

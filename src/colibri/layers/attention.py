"""Grouped-query softmax attention with optional query/key norm, bias, clipping and sliding window.

Source: the OLMoE, Mixtral and Qwen MoE models of transformers. The norm is over the whole
projection (OLMoE) or over each head (Qwen3); rope comes after it.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colibri.kernels.attention import attend
from colibri.kvcache.kv import KVCache
from colibri.layers.linear import Linear, Projections
from colibri.layers.rope import Rope
from colibri.layers.step import Step

F32 = NDArray[np.float32]
Norm = Callable[[F32], F32]


@dataclass(frozen=True)
class Attention:
    layer: int
    heads: int
    kv_heads: int
    head_dim: int
    qkv_proj: Projections
    o_proj: Linear
    rope: Rope
    q_norm: Norm | None = None
    k_norm: Norm | None = None
    norm_per_head: bool = False
    clip: float | None = None
    window: int | None = None

    def new_cache(self, capacity: int) -> KVCache:
        return KVCache(capacity, self.kv_heads, self.head_dim)

    def __call__(self, x: F32, step: Step) -> F32:  # [rows, hidden]
        q, k, v = self.qkv_proj(x)
        q = self._heads(q, self.q_norm, self.heads)
        k = self._heads(k, self.k_norm, self.kv_heads)
        v = self._heads(v, None, self.kv_heads)
        assert step.rope is not None
        self.rope.rotate(q, step.rope)
        self.rope.rotate(k, step.rope)
        out = np.empty_like(q)
        for rows in step.sequences:
            own = slice(rows.start, rows.stop)
            cache = rows.state.layers[self.layer]
            assert isinstance(cache, KVCache)
            cache.append(k[own], v[own])
            attend(
                q[own],
                cache.keys,
                cache.values,
                step.positions[own],
                1 / math.sqrt(self.head_dim),
                window=self.window,
                out=out[own],
            )
        return self.o_proj(out.reshape(len(x), -1))

    def _heads(self, y: F32, norm: Norm | None, heads: int) -> F32:
        if norm is not None and not self.norm_per_head:
            y = norm(y)
        if self.clip is not None:
            np.clip(y, -self.clip, self.clip, out=y)
        y = y.reshape(len(y), heads, self.head_dim)
        return norm(y) if norm is not None and self.norm_per_head else y

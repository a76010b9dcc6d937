"""Grouped-query softmax attention with optional query/key norm, bias, clipping, sliding window and
output gate.

Source: the OLMoE, Mixtral and Qwen MoE models of transformers. The norm is over the whole
projection (OLMoE) or over each head (Qwen3); rope comes after it.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from colibri.kernels.layer import GroupedAttention
from colibri.kvcache.kv import KVCache
from colibri.layers.linear import Linear, Projections
from colibri.layers.norm import RMSNorm
from colibri.layers.rope import Rope
from colibri.layers.step import Step

F32 = NDArray[np.float32]


@dataclass(frozen=True)
class Attention:
    layer: int
    heads: int
    kv_heads: int
    head_dim: int
    qkv_proj: Projections
    o_proj: Linear
    rope: Rope
    q_norm: RMSNorm | None = None
    k_norm: RMSNorm | None = None
    norm_per_head: bool = False
    clip: float | None = None
    window: int | None = None
    gated: bool = False  # q_proj gives each head its query, then a gate for what it attends to

    def new_cache(self, capacity: int) -> KVCache:
        return KVCache(capacity, self.kv_heads, self.head_dim)

    def __call__(self, x: F32, y: F32 | None, norm: RMSNorm, step: Step) -> F32:
        assert step.kernel_rows is not None
        return self.kernel(x, y, norm.kernel, step.kernel_rows)

    @cached_property
    def kernel(self) -> GroupedAttention:
        return GroupedAttention(
            self.qkv_proj.kernel,
            Projections(self.o_proj).kernel,
            layer=self.layer,
            heads=self.heads,
            kv_heads=self.kv_heads,
            head_dim=self.head_dim,
            q_norm=self.q_norm.kernel if self.q_norm else None,
            k_norm=self.k_norm.kernel if self.k_norm else None,
            norm_per_head=self.norm_per_head,
            clip=self.clip,
            window=self.window,
            interleaved=self.rope.interleaved,
            gated=self.gated,
        )

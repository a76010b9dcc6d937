"""The indexer of DeepSeek sparse attention: which earlier positions a query may look at.

Source: GlmMoeDsaIndexer and Glm5NextTextIndexer of transformers. score = sum over heads of
w * relu(q . k), in fp32; the best `topk` positions are kept, ties to the lower one. Where keys are
pooled, one stands for a run of positions, which are kept together; those after the last complete
run always are. While no position sees more than it may keep, all are kept and nothing is scored.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colibri.kernels.attention import index_scores_select, selected
from colibri.kvcache.latent import LatentCache
from colibri.kvcache.pooled import PooledLatentCache
from colibri.layers.linear import Linear
from colibri.layers.nonfinite import not_finite
from colibri.layers.norm import LayerNorm
from colibri.layers.rope import Rope
from colibri.layers.step import Step

F32 = NDArray[np.float32]


@dataclass(frozen=True)
class Indexer:
    layer: int
    heads: int
    dim: int
    topk: int
    wq_b: Linear
    k_norm: LayerNorm
    weights_proj: Linear
    rope: Rope
    pool_bias: F32 | None = None  # [pool, dim], where keys are pooled: added to their gates

    @property
    def pool(self) -> int:
        """Positions that a key stands for."""
        return 1 if self.pool_bias is None else len(self.pool_bias)

    def new_cache(self, capacity: int, latent: int, rope: int) -> LatentCache:
        if self.pool_bias is None:
            return LatentCache(capacity, latent, rope, self.dim)
        return PooledLatentCache(capacity, latent, rope, self.pool_bias)

    def rows(self, k: F32, *gate: F32, step: Step) -> list[F32]:
        """What is cached beside the latent: k, wk's product [rows, dim], normed and rotated; its
        gate [rows, dim] where keys are pooled."""
        k = self.k_norm(k).reshape(len(k), 1, self.dim)
        assert step.rope is not None
        self.rope.rotate(k, step.rope)
        return [k.reshape(len(k), self.dim), *gate]

    def select(self, x: F32, q_latent: F32, step: Step) -> None:
        """Fill step.selection; the caches hold this step's rows already."""
        step.selection = [None] * len(step.sequences)
        most = selected(self.topk, self.pool)
        if all(rows.state.layers[self.layer].length <= most for rows in step.sequences):
            return
        q = self.wq_b(q_latent).reshape(len(x), self.heads, self.dim)
        assert step.rope is not None
        self.rope.rotate(q, step.rope)
        # Both scales of the reference are powers that multiply a sum: folded into the weights.
        w = self.weights_proj(x) * np.float32(1 / math.sqrt(self.heads * self.dim))
        for i, rows in enumerate(step.sequences):
            cache = rows.state.layers[self.layer]
            assert isinstance(cache, LatentCache)
            if cache.length > most:
                own = slice(rows.start, rows.stop)
                try:
                    step.selection[i] = index_scores_select(
                        q[own], w[own], cache.index_keys, step.positions[own], self.topk, self.pool
                    )
                except ValueError as error:
                    raise not_finite(self.layer, error) from error

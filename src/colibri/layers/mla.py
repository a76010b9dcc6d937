"""Multi-head latent attention, absorbed in prefill and decode alike, so that both give the same
bits.

Source: GlmMoeDsaAttention of transformers (DeepSeek V2/V3's MLA), and Glm5NextTextAttention, whose
rope has no dimensions. kv_b is never expanded over positions: its key half is applied to the query
and its value half to the attended latent. With an indexer the query sees only what was selected; a
layer without one of its own uses the selection of the last layer that has.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colibri.formats.base import Matrix
from colibri.kernels.attention import attend
from colibri.kernels.matmul import matmul_heads
from colibri.kvcache.latent import LatentCache
from colibri.layers.indexer import Indexer
from colibri.layers.linear import Linear, Projections
from colibri.layers.norm import RMSNorm
from colibri.layers.rope import Rope
from colibri.layers.step import Step

F32 = NDArray[np.float32]


@dataclass(frozen=True)
class LatentAttention:
    layer: int
    heads: int
    nope_dim: int
    rope_dim: int
    value_dim: int
    latent_dim: int
    input_proj: Projections  # query latent, latent + rope of the key, indexer's key and gate if any
    q_a_norm: RMSNorm
    q_b_proj: Projections
    kv_a_norm: RMSNorm
    kv_b_key: Matrix  # [heads * latent, nope]
    kv_b_value: Matrix  # [heads * value, latent]
    o_proj: Linear
    rope: Rope
    planes: int
    indexer: Indexer | None

    def new_cache(self, capacity: int) -> LatentCache:
        if self.indexer is not None:
            return self.indexer.new_cache(capacity, self.latent_dim, self.rope_dim)
        return LatentCache(capacity, self.latent_dim, self.rope_dim)

    def __call__(self, x: F32, y: F32 | None, norm: RMSNorm, step: Step) -> F32:
        n = len(x)
        x, (q_latent, kv, *index) = self.input_proj.normed(x, y, norm)
        q_latent, (q,) = self.q_b_proj.normed(q_latent, None, self.q_a_norm)
        q = q.reshape(n, self.heads, self.nope_dim + self.rope_dim)
        query = np.empty((n, self.heads, self.latent_dim + self.rope_dim), np.float32)
        nope = np.ascontiguousarray(q[:, :, : self.nope_dim])
        query[:, :, : self.latent_dim] = matmul_heads(nope, self.kv_b_key, self.planes)
        query[:, :, self.latent_dim :] = q[:, :, self.nope_dim :]
        assert step.rope is not None
        self.rope.rotate(query, step.rope, self.latent_dim)
        self._append(kv, index, step)
        if self.indexer is not None:
            self.indexer.select(x, q_latent, step)
        latent = np.empty((n, self.heads, self.latent_dim), np.float32)
        for i, rows in enumerate(step.sequences):
            query_own, positions, own = step.own(rows, query, step.positions, latent)
            cache = rows.state.layers[self.layer]
            assert isinstance(cache, LatentCache)
            attend(
                query_own,
                cache.keys,
                cache.values,
                positions,
                1 / math.sqrt(self.nope_dim + self.rope_dim),
                index=step.selection[i],
                out=own,
            )
        out = matmul_heads(latent, self.kv_b_value, self.planes)  # [rows, heads, value]
        return self.o_proj(out.reshape(n, -1))

    def _append(self, kv: F32, index: list[F32], step: Step) -> None:
        key = np.empty((len(kv), 1, self.latent_dim + self.rope_dim), np.float32)
        key[:, 0, : self.latent_dim] = self.kv_a_norm(
            np.ascontiguousarray(kv[:, : self.latent_dim])
        )
        key[:, 0, self.latent_dim :] = kv[:, self.latent_dim :]
        assert step.rope is not None
        self.rope.rotate(key, step.rope, self.latent_dim)
        new = [key]
        if self.indexer is not None:
            new += self.indexer.rows(*index, step=step)
        for rows in step.sequences:
            cache = rows.state.layers[self.layer]
            assert isinstance(cache, LatentCache)
            for start, stop in rows.pieces():
                if start != rows.start:
                    cache.mark()
                cache.append(*(part[start:stop] for part in new))

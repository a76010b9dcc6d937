"""Tensor shapes of multi-head latent attention and of the sparse indexer beside it."""

from typing import Protocol

from colibri.models.names import Shapes

# Of an indexer whose keys are pooled; named without ".weight".
POOL_GATE, POOL_BIAS = "index_kpool_compress_gate", "index_kpool_compress_ape"


class LatentDims(Protocol):
    @property
    def hidden_size(self) -> int: ...
    @property
    def num_attention_heads(self) -> int: ...
    @property
    def q_lora_rank(self) -> int: ...
    @property
    def kv_lora_rank(self) -> int: ...
    @property
    def qk_nope_head_dim(self) -> int: ...
    @property
    def qk_rope_head_dim(self) -> int: ...
    @property
    def v_head_dim(self) -> int: ...
    @property
    def index_n_heads(self) -> int: ...
    @property
    def index_head_dim(self) -> int: ...
    @property
    def index_topk(self) -> int: ...


def latent_attention_shapes(prefix: str, c: LatentDims) -> Shapes:
    heads = c.num_attention_heads
    return {
        f"{prefix}.q_a_proj.weight": (c.q_lora_rank, c.hidden_size),
        f"{prefix}.q_a_layernorm.weight": (c.q_lora_rank,),
        f"{prefix}.q_b_proj.weight": (
            heads * (c.qk_nope_head_dim + c.qk_rope_head_dim),
            c.q_lora_rank,
        ),
        f"{prefix}.kv_a_proj_with_mqa.weight": (c.kv_lora_rank + c.qk_rope_head_dim, c.hidden_size),
        f"{prefix}.kv_a_layernorm.weight": (c.kv_lora_rank,),
        f"{prefix}.kv_b_proj.weight": (heads * (c.qk_nope_head_dim + c.v_head_dim), c.kv_lora_rank),
        f"{prefix}.o_proj.weight": (c.hidden_size, heads * c.v_head_dim),
    }


def indexer_shapes(prefix: str, c: LatentDims) -> Shapes:
    return {
        f"{prefix}.wq_b.weight": (c.index_n_heads * c.index_head_dim, c.q_lora_rank),
        f"{prefix}.wk.weight": (c.index_head_dim, c.hidden_size),
        f"{prefix}.k_norm.weight": (c.index_head_dim,),
        f"{prefix}.k_norm.bias": (c.index_head_dim,),
        f"{prefix}.weights_proj.weight": (c.index_n_heads, c.hidden_size),
    }


def pool_shapes(prefix: str, c: LatentDims, pool: int) -> Shapes:
    """What an indexer has besides where a key stands for `pool` positions."""
    return {
        f"{prefix}.{POOL_GATE}": (c.index_head_dim, c.hidden_size),
        f"{prefix}.{POOL_BIAS}": (pool, c.index_head_dim),
    }

"""Sizes of the model, in Hugging Face's names."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Shape:
    vocab_size: int = 4096
    hidden_size: int = 256
    num_hidden_layers: int = 5
    first_k_dense_replace: int = 1
    intermediate_size: int = 512
    num_attention_heads: int = 8
    q_lora_rank: int = 128
    kv_lora_rank: int = 64
    qk_nope_head_dim: int = 16
    qk_rope_head_dim: int = 16
    v_head_dim: int = 32
    n_routed_experts: int = 32
    num_experts_per_tok: int = 4
    moe_intermediate_size: int = 128
    routed_scaling_factor: float = 2.5
    index_n_heads: int = 4
    index_head_dim: int = 32
    rope_theta: float = 10000.0
    rms_norm_eps: float = 1e-5
    max_position_embeddings: int = 2048

    @property
    def qk_head_dim(self) -> int:
        return self.qk_nope_head_dim + self.qk_rope_head_dim


# Minutes instead of hours: to try the recipe, not to talk to.
MINI = Shape(
    vocab_size=512,
    hidden_size=64,
    num_hidden_layers=3,
    intermediate_size=128,
    num_attention_heads=4,
    q_lora_rank=48,
    kv_lora_rank=32,
    n_routed_experts=8,
    num_experts_per_tok=2,
    moe_intermediate_size=32,
)

"""The config of GLM-5.3-Flash (model_type glm5_next): what its text_config must be."""

from collections.abc import Mapping
from typing import Any

import msgspec

from colibri.errors import ConfigError
from colibri.models.config import (
    DecoderConfig,
    in_range,
    of_length,
    one_of,
    parse_config,
    refuse_unless,
)


class LinearAttention(msgspec.Struct, frozen=True, kw_only=True):
    """KDA's own dimensions."""

    num_heads: int
    head_dim: int
    short_conv_kernel_size: int
    gate_lower_bound: float | None = None
    kda_layers: list[int] | None = None

    @property
    def width(self) -> int:
        return self.num_heads * self.head_dim


class Glm5NextConfig(DecoderConfig, frozen=True, kw_only=True):
    intermediate_size: int
    moe_intermediate_size: int
    n_routed_experts: int
    num_experts_per_tok: int
    n_shared_experts: int
    q_lora_rank: int
    kv_lora_rank: int
    qk_nope_head_dim: int
    qk_rope_head_dim: int
    v_head_dim: int
    index_topk: int
    index_n_heads: int
    index_head_dim: int
    index_kpool: int
    linear_attn_config: LinearAttention
    hc_mult: int
    first_k_dense_replace: int = 0
    mlp_layer_types: list[str] | None = None
    num_nextn_predict_layers: int = 0

    def sparse(self, layer: int) -> bool:
        if layer < self.num_hidden_layers and self.mlp_layer_types is not None:
            return self.mlp_layer_types[layer] == "sparse"
        return layer >= self.first_k_dense_replace

    def linear(self, layer: int) -> bool:
        """Whether a layer's mixer is KDA; the others, and draft layers, have full attention."""
        if layer >= self.num_hidden_layers:
            return False
        if self.layer_types is not None:
            return self.layer_types[layer] != "full_attention"
        if self.linear_attn_config.kda_layers is not None:
            return layer in self.linear_attn_config.kda_layers
        return layer % 4 != 3

    def check(self) -> None:
        super().check()
        for field in (
            "intermediate_size", "moe_intermediate_size", "q_lora_rank", "kv_lora_rank",
            "qk_nope_head_dim", "v_head_dim", "index_topk", "index_n_heads", "index_head_dim",
        ):  # fmt: skip
            in_range(field, getattr(self, field), 1, 1 << 20)
        refuse_unless(self.qk_rope_head_dim == 0, "qk_rope_head_dim", self.qk_rope_head_dim, "0")
        in_range("n_shared_experts", self.n_shared_experts, 1, 64)
        in_range("n_routed_experts", self.n_routed_experts, 1, 1 << 16)
        in_range("num_experts_per_tok", self.num_experts_per_tok, 1, self.n_routed_experts)
        in_range("first_k_dense_replace", self.first_k_dense_replace, 0, self.num_hidden_layers)
        in_range("num_nextn_predict_layers", self.num_nextn_predict_layers, 0, 8)
        in_range("index_kpool", self.index_kpool, 1, 1 << 10)
        in_range("hc_mult", self.hc_mult, 1, 64)
        kda = self.linear_attn_config
        for field in ("num_heads", "head_dim"):
            in_range(f"linear_attn_config.{field}", getattr(kda, field), 1, 1 << 16)
        in_range(
            "linear_attn_config.short_conv_kernel_size", kda.short_conv_kernel_size, 1, 1 << 10
        )
        if self.mlp_layer_types is not None:
            of_length("mlp_layer_types", self.mlp_layer_types, self.num_hidden_layers)
            one_of("mlp_layer_types", self.mlp_layer_types, ("dense", "sparse"))


def parse(config: Mapping[str, Any]) -> Glm5NextConfig:
    """The text model's part; the vision tower's is not looked at."""
    text = config.get("text_config")
    if not isinstance(text, dict):
        raise ConfigError("config.json: text_config is missing; a glm5_next config holds one")
    outer = {key: config[key] for key in ("model_type", "tie_word_embeddings") if key in config}
    return parse_config({**text, **outer}, Glm5NextConfig)

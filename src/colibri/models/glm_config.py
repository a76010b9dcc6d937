"""The config of GLM-5, 5.1, 5.2 and the large 5.3 (model_type glm_moe_dsa), and what it must be."""

from collections.abc import Mapping
from typing import Any

from colibri.layers.rope import Rope, rope_from_config
from colibri.models.config import (
    DecoderConfig,
    in_range,
    of_length,
    one_of,
    parse_config,
    refuse_unless,
)


class GlmMoeDsaConfig(DecoderConfig, frozen=True, kw_only=True):
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
    routed_scaling_factor: float = 1.0
    n_group: int = 1
    topk_group: int = 1
    norm_topk_prob: bool = True
    scoring_func: str = "sigmoid"
    topk_method: str = "noaux_tc"
    first_k_dense_replace: int = 0
    mlp_layer_types: list[str] | None = None
    indexer_types: list[str] | None = None
    index_topk_pattern: str | None = None
    index_topk_freq: int = 1
    index_skip_topk_offset: int = 2
    rope_interleave: bool = True
    indexer_rope_interleave: bool | None = None
    num_nextn_predict_layers: int = 0
    transformers_version: str | None = None

    @property
    def index_interleaved(self) -> bool:
        """The key decides; without it, what transformers wrote (it always interleaves), else
        half-split (GLM-5, 5.1)."""
        if self.indexer_rope_interleave is not None:
            return self.indexer_rope_interleave
        return self.transformers_version is not None and self.indexer_types is not None

    def sparse(self, layer: int) -> bool:
        if layer < self.num_hidden_layers and self.mlp_layer_types is not None:
            return self.mlp_layer_types[layer] == "sparse"
        return layer >= self.first_k_dense_replace

    def indexed(self, layer: int) -> bool:
        """Has an indexer of its own: listed, or by a pattern of F(ull) and S(hared), or by rule."""
        if layer < self.num_hidden_layers:
            if self.indexer_types is not None:
                return self.indexer_types[layer] == "full"
            if self.index_topk_pattern is not None:
                return self.index_topk_pattern[layer] == "F"
        return max(layer - self.index_skip_topk_offset + 1, 0) % self.index_topk_freq == 0

    def check(self) -> None:
        super().check()
        refuse_unless(
            self.scoring_func == "sigmoid", "scoring_func", self.scoring_func, "'sigmoid'"
        )
        refuse_unless(self.topk_method == "noaux_tc", "topk_method", self.topk_method, "'noaux_tc'")
        refuse_unless(not self.attention_bias, "attention_bias", self.attention_bias, "false")
        refuse_unless(self.rope_interleave, "rope_interleave", self.rope_interleave, "true")
        for field in (
            "intermediate_size", "moe_intermediate_size", "q_lora_rank", "kv_lora_rank",
            "qk_nope_head_dim", "v_head_dim", "index_topk", "index_n_heads", "index_topk_freq",
        ):  # fmt: skip
            in_range(field, getattr(self, field), 1, 1 << 20)
        in_range("n_shared_experts", self.n_shared_experts, 1, 64)
        in_range("qk_rope_head_dim", self.qk_rope_head_dim, 2, 4096)
        refuse_unless(
            self.qk_rope_head_dim % 2 == 0, "qk_rope_head_dim", self.qk_rope_head_dim, "even"
        )
        in_range("index_head_dim", self.index_head_dim, self.qk_rope_head_dim, 4096)
        in_range("n_routed_experts", self.n_routed_experts, 1, 1 << 16)
        in_range("num_experts_per_tok", self.num_experts_per_tok, 1, self.n_routed_experts)
        in_range("first_k_dense_replace", self.first_k_dense_replace, 0, self.num_hidden_layers)
        in_range("routed_scaling_factor", self.routed_scaling_factor, 0, 1e4)
        in_range("num_nextn_predict_layers", self.num_nextn_predict_layers, 0, 8)
        self._check_groups()
        for name, values, allowed in (
            ("mlp_layer_types", self.mlp_layer_types, ("dense", "sparse")),
            ("indexer_types", self.indexer_types, ("full", "shared")),
            ("index_topk_pattern", self.index_topk_pattern, ("F", "S")),
        ):
            if values is not None:
                of_length(name, values, self.num_hidden_layers)
                one_of(name, values, allowed)
        refuse_unless(self.indexed(0), "indexer_types", "shared at layer 0", "'full' there")
        rope_of(self)

    def _check_groups(self) -> None:
        experts = self.n_routed_experts
        in_range("n_group", self.n_group, 1, experts)
        refuse_unless(
            experts % self.n_group == 0, "n_group", self.n_group, f"a divisor of {experts} experts"
        )
        in_range("topk_group", self.topk_group, 1, self.n_group)
        in_range(
            "num_experts_per_tok",
            self.num_experts_per_tok,
            1,
            experts // self.n_group * self.topk_group,
        )


def rope_of(config: GlmMoeDsaConfig, interleaved: bool = True) -> Rope:
    return rope_from_config(
        config.qk_rope_head_dim,
        config.max_position_embeddings,
        theta=config.rope_theta,
        scaling=config.rope_scaling,
        parameters=config.rope_parameters,
        interleaved=interleaved,
    )


def parse(config: Mapping[str, Any]) -> GlmMoeDsaConfig:
    return parse_config(config, GlmMoeDsaConfig)

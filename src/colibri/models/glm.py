"""What the GLMs share: latent attention with an indexer, and experts behind a sigmoid router beside
a shared one.

Source: GlmMoeDsaForCausalLM and Glm5NextForConditionalGeneration of transformers.
"""

import math
from collections.abc import Callable

from colibri.container.weights import ExpertShape, Rule
from colibri.experts.base import ExpertExecutor
from colibri.layers.mlp import DenseMLP
from colibri.layers.moe import MoE
from colibri.models.config import DecoderConfig, in_range, of_length, one_of, refuse_unless
from colibri.models.loader import TrunkLoader
from colibri.models.names import (
    ROOT,
    Shapes,
    common_rules,
    expert_rules,
    layer_pattern,
    swiglu_shapes,
    trunk,
)
from colibri.routing.sigmoid import SigmoidRouter


class GlmConfig(DecoderConfig, frozen=True, kw_only=True):
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
    num_nextn_predict_layers: int = 0

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
        for field in (
            "intermediate_size", "moe_intermediate_size", "q_lora_rank", "kv_lora_rank",
            "qk_nope_head_dim", "v_head_dim", "index_topk", "index_n_heads", "index_topk_freq",
        ):  # fmt: skip
            in_range(field, getattr(self, field), 1, 1 << 20)
        in_range("n_shared_experts", self.n_shared_experts, 1, 64)
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


def glm_rules(root: str = ROOT) -> tuple[Rule, ...]:
    """`root`: a pattern, of what the names of all tensors but the head's begin with."""
    layer = layer_pattern(root)
    attention = layer + r"self_attn\."
    return (
        *expert_rules(layer=layer),
        *common_rules(root),
        trunk(attention + r"(q_a_proj|q_b_proj|kv_a_proj_with_mqa)\.weight", "linear"),
        trunk(attention + r"kv_b_proj\.weight", "absorbed"),
        trunk(attention + r"(q_a|kv_a)_layernorm\.weight", "exact"),
        trunk(attention + r"indexer\.(wq_b|wk)\.weight", "linear"),
        trunk(attention + r"indexer\.(weights_proj\.weight|k_norm\.(weight|bias))", "exact"),
        trunk(layer + r"mlp\.gate\.e_score_correction_bias", "exact"),
        trunk(layer + r"eh_proj\.weight", "linear"),
        trunk(layer + r"(enorm|hnorm|shared_head\.norm)\.weight", "exact"),
        trunk(layer + r"embed_tokens\.weight", "embedding"),
        trunk(layer + r"shared_head\.head\.weight", "linear"),
    )


def expert_layers(c: GlmConfig) -> dict[int, ExpertShape]:
    """With the draft layers behind the last."""
    sizes, layers = (
        (c.n_routed_experts, c.hidden_size, c.moe_intermediate_size),
        c.num_hidden_layers,
    )
    return {
        layer: ExpertShape(*sizes, draft=layer >= layers)
        for layer in range(layers + c.num_nextn_predict_layers)
        if c.sparse(layer)
    }


def mlp_shapes(prefix: str, c: GlmConfig, sparse: bool) -> Shapes:
    if not sparse:
        return swiglu_shapes(prefix, c.hidden_size, c.intermediate_size)
    shared = c.moe_intermediate_size * c.n_shared_experts
    return {
        f"{prefix}.gate.weight": (c.n_routed_experts, c.hidden_size),
        f"{prefix}.gate.e_score_correction_bias": (c.n_routed_experts,),
    } | swiglu_shapes(f"{prefix}.shared_experts", c.hidden_size, shared)


def mlp_loader(
    c: GlmConfig,
    load: TrunkLoader,
    experts: ExpertExecutor,
    root: str = "model",
    limit: float = math.inf,
) -> Callable[[int], MoE | DenseMLP]:
    """A layer's second half by its number; `limit` of every SwiGLU in it."""

    def mlp(layer: int) -> MoE | DenseMLP:
        prefix = f"{root}.layers.{layer}.mlp"
        if not c.sparse(layer):
            return DenseMLP(load.swiglu(prefix, limit))
        router = SigmoidRouter(
            k=c.num_experts_per_tok,
            bias=load.vector(f"{prefix}.gate.e_score_correction_bias"),
            groups=c.n_group,
            topk_groups=c.topk_group,
            renormalize=c.norm_topk_prob,
            scale=c.routed_scaling_factor,
        )
        shared = load.swiglu(f"{prefix}.shared_experts", limit)
        return load.moe(layer, f"{prefix}.gate", router, experts, shared, limit=limit)

    return mlp

"""GLM-5, 5.1, 5.2 and the large 5.3: latent attention with a sparse indexer, sigmoid router with
groups, shared expert.

Source: GlmMoeDsaForCausalLM of transformers. Layers marked "shared" reuse the selection of the
last "full" layer. The draft (MTP) layer behind the last one is kept by conversions and not yet run.
"""

from collections.abc import Callable, Mapping
from typing import Any

from colibri.container.weights import ExpertShape, WeightMap
from colibri.experts.base import ExpertExecutor
from colibri.layers.absorb import load_absorbed
from colibri.layers.decoder import Decoder
from colibri.layers.indexer import Indexer
from colibri.layers.mla import LatentAttention
from colibri.layers.moe import MoE
from colibri.layers.rope import Rope, rope_from_config
from colibri.models.config import (
    DecoderConfig,
    in_range,
    of_length,
    one_of,
    parse_config,
    refuse_unless,
)
from colibri.models.family import Family, Sizes, moe_scratch_bytes
from colibri.models.gqa import decoder
from colibri.models.loader import TrunkLoader
from colibri.models.mla_names import indexer_shapes, latent_attention_shapes
from colibri.models.names import (
    LAYER,
    Shapes,
    common_rules,
    expert_rules,
    outer_shapes,
    swiglu_shapes,
    trunk,
)
from colibri.routing.sigmoid import SigmoidRouter

# The reference hard-wires this epsilon for the latents and the indexer's key norm.
LATENT_EPS = 1e-6


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
    index_topk_freq: int = 1
    index_skip_topk_offset: int = 0
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
        """Has an indexer of its own."""
        if layer < self.num_hidden_layers and self.indexer_types is not None:
            return self.indexer_types[layer] == "full"
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
        in_range("num_nextn_predict_layers", self.num_nextn_predict_layers, 0, 8)
        self._check_groups()
        for name, values, allowed in (
            ("mlp_layer_types", self.mlp_layer_types, ("dense", "sparse")),
            ("indexer_types", self.indexer_types, ("full", "shared")),
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


RULES = (
    *common_rules(),
    *expert_rules(),
    trunk(LAYER + r"self_attn\.(q_a_proj|q_b_proj|kv_a_proj_with_mqa)\.weight", "linear"),
    trunk(LAYER + r"self_attn\.kv_b_proj\.weight", "absorbed"),
    trunk(LAYER + r"self_attn\.(q_a|kv_a)_layernorm\.weight", "exact"),
    trunk(LAYER + r"self_attn\.indexer\.(wq_b|wk)\.weight", "linear"),
    trunk(LAYER + r"self_attn\.indexer\.(weights_proj\.weight|k_norm\.(weight|bias))", "exact"),
    trunk(LAYER + r"mlp\.gate\.e_score_correction_bias", "exact"),
    trunk(LAYER + r"eh_proj\.weight", "linear"),
    trunk(LAYER + r"(enorm|hnorm|shared_head\.norm)\.weight", "exact"),
    trunk(LAYER + r"embed_tokens\.weight", "embedding"),
    trunk(LAYER + r"shared_head\.head\.weight", "linear"),
)


def weights(config: GlmMoeDsaConfig) -> WeightMap:
    shapes, experts = outer_shapes(config), {}
    hidden, layers = config.hidden_size, config.num_hidden_layers
    for layer in range(layers + config.num_nextn_predict_layers):
        if config.sparse(layer):
            inner = config.moe_intermediate_size
            experts[layer] = ExpertShape(
                config.n_routed_experts, hidden, inner, draft=layer >= layers
            )
    for layer in range(layers):
        prefix = f"model.layers.{layer}"
        shapes |= latent_attention_shapes(f"{prefix}.self_attn", config)
        if config.indexed(layer):
            shapes |= indexer_shapes(f"{prefix}.self_attn.indexer", config)
        shapes |= mlp_shapes(f"{prefix}.mlp", config, config.sparse(layer))
    return WeightMap(RULES, experts, shapes)


def mlp_shapes(prefix: str, c: GlmMoeDsaConfig, sparse: bool) -> Shapes:
    if not sparse:
        return swiglu_shapes(prefix, c.hidden_size, c.intermediate_size)
    shared = c.moe_intermediate_size * c.n_shared_experts
    return {
        f"{prefix}.gate.weight": (c.n_routed_experts, c.hidden_size),
        f"{prefix}.gate.e_score_correction_bias": (c.n_routed_experts,),
    } | swiglu_shapes(f"{prefix}.shared_experts", c.hidden_size, shared)


def sizes(c: GlmMoeDsaConfig) -> Sizes:
    full = sum(c.indexed(layer) for layer in range(c.num_hidden_layers))
    latent = c.kv_lora_rank + c.qk_rope_head_dim
    state = 4 * (latent * c.num_hidden_layers + c.index_head_dim * full)
    heads = c.num_attention_heads
    attention = heads * (2 * latent + c.qk_nope_head_dim + c.v_head_dim + latent)
    mlp = 3 * max(c.intermediate_size, c.moe_intermediate_size * c.n_shared_experts)
    row = 6 * (5 * c.hidden_size + max(attention, mlp)) + 4 * c.index_topk
    row += moe_scratch_bytes(c.hidden_size, c.num_experts_per_tok, c.moe_intermediate_size)
    return Sizes(state, row, 4 * c.num_experts_per_tok * c.hidden_size)


def build(config: GlmMoeDsaConfig, load: TrunkLoader, experts: ExpertExecutor) -> Decoder:
    rope = rope_of(config)

    def mlp(layer: int) -> Callable[..., Any]:
        prefix = f"model.layers.{layer}.mlp"
        if not config.sparse(layer):
            return load.swiglu(prefix)
        router = SigmoidRouter(
            k=config.num_experts_per_tok,
            bias=load.vector(f"{prefix}.gate.e_score_correction_bias"),
            groups=config.n_group,
            topk_groups=config.topk_group,
            renormalize=config.norm_topk_prob,
            scale=config.routed_scaling_factor,
        )
        return MoE(
            layer,
            load.exact(f"{prefix}.gate"),
            router,
            experts,
            load.swiglu(f"{prefix}.shared_experts"),
        )

    return decoder(config, load, rope, lambda layer: attention(config, load, layer, rope), mlp)


def attention(c: GlmMoeDsaConfig, load: TrunkLoader, layer: int, rope: Rope) -> LatentAttention:
    prefix = f"model.layers.{layer}.self_attn"
    key, value = load_absorbed(
        load.container,
        f"{prefix}.kv_b_proj.weight",
        heads=c.num_attention_heads,
        nope_dim=c.qk_nope_head_dim,
        value_dim=c.v_head_dim,
        bits=load.trunk_bits,
    )
    return LatentAttention(
        layer=layer,
        heads=c.num_attention_heads,
        nope_dim=c.qk_nope_head_dim,
        rope_dim=c.qk_rope_head_dim,
        value_dim=c.v_head_dim,
        latent_dim=c.kv_lora_rank,
        q_a_proj=load.linear(f"{prefix}.q_a_proj"),
        q_a_norm=load.rms_norm(f"{prefix}.q_a_layernorm", LATENT_EPS),
        q_b_proj=load.linear(f"{prefix}.q_b_proj"),
        kv_a_proj=load.linear(f"{prefix}.kv_a_proj_with_mqa"),
        kv_a_norm=load.rms_norm(f"{prefix}.kv_a_layernorm", LATENT_EPS),
        kv_b_key=key,
        kv_b_value=value,
        o_proj=load.linear(f"{prefix}.o_proj"),
        rope=rope,
        planes=load.planes,
        indexer=indexer(c, load, layer) if c.indexed(layer) else None,
    )


def indexer(c: GlmMoeDsaConfig, load: TrunkLoader, layer: int) -> Indexer:
    prefix = f"model.layers.{layer}.self_attn.indexer"
    return Indexer(
        layer=layer,
        heads=c.index_n_heads,
        dim=c.index_head_dim,
        topk=c.index_topk,
        wq_b=load.linear(f"{prefix}.wq_b"),
        wk=load.linear(f"{prefix}.wk"),
        k_norm=load.layer_norm(f"{prefix}.k_norm", LATENT_EPS),
        weights_proj=load.exact(f"{prefix}.weights_proj"),
        rope=rope_of(c, c.index_interleaved),
    )


FAMILY = Family("glm_moe_dsa", parse, weights, sizes, build)

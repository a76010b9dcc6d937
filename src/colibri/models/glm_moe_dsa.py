"""GLM-5, 5.1, 5.2 and the large 5.3: latent attention with a sparse indexer, sigmoid router with
groups, shared expert.

Source: GlmMoeDsaForCausalLM of transformers. Layers marked "shared" reuse the selection of the
last "full" layer. The draft (MTP) layer behind the last one is kept by conversions and not yet run.
"""

from collections.abc import Callable
from typing import Any

from colibri.container.weights import ExpertShape, WeightMap
from colibri.experts.base import ExpertExecutor
from colibri.layers.mla import LatentAttention
from colibri.layers.mlp import DenseMLP
from colibri.models.assembly import Assembly
from colibri.models.family import Family, Sizes, moe_scratch_bytes
from colibri.models.glm_config import GlmMoeDsaConfig, parse, rope_of
from colibri.models.loader import TrunkLoader
from colibri.models.mla import load_attention, load_indexer
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


RULES = (
    *expert_rules(),
    *common_rules(),
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
    return Sizes(state, row, 4 * c.num_experts_per_tok * c.hidden_size, c.num_experts_per_tok)


def build(config: GlmMoeDsaConfig, load: TrunkLoader, experts: ExpertExecutor) -> Assembly:
    rope = rope_of(config)

    def mlp(layer: int) -> Callable[..., Any]:
        prefix = f"model.layers.{layer}.mlp"
        if not config.sparse(layer):
            return DenseMLP(load.swiglu(prefix))
        router = SigmoidRouter(
            k=config.num_experts_per_tok,
            bias=load.vector(f"{prefix}.gate.e_score_correction_bias"),
            groups=config.n_group,
            topk_groups=config.topk_group,
            renormalize=config.norm_topk_prob,
            scale=config.routed_scaling_factor,
        )
        return load.moe(
            layer,
            f"{prefix}.gate",
            router,
            experts,
            load.swiglu(f"{prefix}.shared_experts"),
        )

    def attention(layer: int) -> LatentAttention:
        prefix = f"model.layers.{layer}.self_attn"
        indexer = None
        if config.indexed(layer):
            indexer = load_indexer(
                config, load, prefix, layer, rope_of(config, config.index_interleaved)
            )
        return load_attention(config, load, prefix, layer, rope, indexer, eps=LATENT_EPS)

    return Assembly(config, load, rope, attention, mlp)


FAMILY = Family("glm_moe_dsa", parse, weights, sizes, build)

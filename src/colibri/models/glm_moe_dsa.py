"""GLM-5, 5.1, 5.2 and the large 5.3: latent attention with a sparse indexer, sigmoid router with
groups, shared expert.

Source: GlmMoeDsaForCausalLM of transformers. Layers marked "shared" reuse the selection of the
last "full" layer. The draft (MTP) layer behind the last one is kept by conversions and not yet run.
"""

from colibri.container.weights import WeightMap
from colibri.experts.base import ExpertExecutor
from colibri.layers.mla import LatentAttention
from colibri.models.assembly import Assembly
from colibri.models.family import Family, Sizes, moe_scratch_bytes
from colibri.models.glm import expert_layers, glm_rules, mlp_loader, mlp_shapes
from colibri.models.glm_config import GlmMoeDsaConfig, parse, rope_of
from colibri.models.loader import TrunkLoader
from colibri.models.mla import load_attention, load_indexer
from colibri.models.mla_names import indexer_shapes, latent_attention_shapes
from colibri.models.names import outer_shapes

# The reference hard-wires this epsilon for the latents and the indexer's key norm.
LATENT_EPS = 1e-6


def weights(config: GlmMoeDsaConfig) -> WeightMap:
    shapes = outer_shapes(config)
    for layer in range(config.num_hidden_layers):
        prefix = f"model.layers.{layer}"
        shapes |= latent_attention_shapes(f"{prefix}.self_attn", config)
        if config.indexed(layer):
            shapes |= indexer_shapes(f"{prefix}.self_attn.indexer", config)
        shapes |= mlp_shapes(f"{prefix}.mlp", config, config.sparse(layer))
    return WeightMap(glm_rules(), expert_layers(config), shapes)


def sizes(c: GlmMoeDsaConfig) -> Sizes:
    full = sum(c.indexed(layer) for layer in range(c.num_hidden_layers))
    latent = c.kv_lora_rank + c.qk_rope_head_dim
    state = 4 * (latent * c.num_hidden_layers + c.index_head_dim * full)
    heads = c.num_attention_heads
    attention = heads * (2 * latent + c.qk_nope_head_dim + c.v_head_dim + latent)
    mlp = 3 * max(c.intermediate_size, c.moe_intermediate_size * c.n_shared_experts)
    row = 6 * (5 * c.hidden_size + max(attention, mlp)) + 4 * c.index_topk
    row += moe_scratch_bytes(c.hidden_size, c.num_experts_per_tok, c.moe_intermediate_size)
    return Sizes(
        state_bytes=state,
        activation_bytes=row,
        pair_bytes=4 * c.num_experts_per_tok * c.hidden_size,
        experts_per_token=c.num_experts_per_tok,
        index_pool=1 if full else 0,
    )


def build(config: GlmMoeDsaConfig, load: TrunkLoader, experts: ExpertExecutor) -> Assembly:
    rope = rope_of(config)

    def attention(layer: int) -> LatentAttention:
        prefix = f"model.layers.{layer}.self_attn"
        indexer = None
        if config.indexed(layer):
            indexer = load_indexer(
                config, load, prefix, layer, rope_of(config, config.index_interleaved)
            )
        return load_attention(config, load, prefix, layer, rope, indexer, eps=LATENT_EPS)

    return Assembly(config, load, rope, attention, mlp_loader(config, load, experts))


FAMILY = Family("glm_moe_dsa", parse, weights, sizes, build)

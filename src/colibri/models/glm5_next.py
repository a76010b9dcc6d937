"""GLM-5.3-Flash, its sizes: KDA (linear attention) layers with every fourth MLA over a pooled
indexer, a residual of several streams (mHC), 288 experts behind a sigmoid router.

Names and shapes are those of the BF16 release. The layers themselves do not exist yet, so the
family can be planned and not run. The vision tower and the draft layer are not loaded.
"""

from colibri.container.weights import ExpertShape, WeightMap
from colibri.kvcache.pooled import kept_bytes
from colibri.models.family import Outline, Sizes, moe_scratch_bytes
from colibri.models.glm5_next_config import Glm5NextConfig, parse
from colibri.models.mla_names import indexer_shapes, latent_attention_shapes, pool_shapes
from colibri.models.names import Shapes, expert_rules, swiglu_shapes, trunk

PREFIX = "model.language_model."
LAYER = r"model\.language_model\.layers\.(?P<layer>\d+)\."
ATTENTION = LAYER + r"self_attn\."

RULES = (
    *expert_rules(layer=LAYER),
    trunk(r"model\.language_model\.embed_tokens\.weight", "embedding"),
    trunk(r"lm_head\.weight", "linear"),
    trunk(r"model\.language_model\.norm\.weight", "exact"),
    trunk(LAYER + r"(input|post_attention)_layernorm\.weight", "exact"),
    trunk(LAYER + r"hc_(attn|ffn)_(fn|base|scale)", "exact"),
    trunk(ATTENTION + r"([qkvo]|f_a|f_b|g_a|g_b)_proj\.weight", "linear"),
    trunk(ATTENTION + r"(b_proj|[qkv]_conv1d|o_norm)\.weight", "exact"),
    trunk(ATTENTION + r"(A_log|dt_bias)", "exact"),
    trunk(ATTENTION + r"(q_a_proj|q_b_proj|kv_a_proj_with_mqa)\.weight", "linear"),
    trunk(ATTENTION + r"kv_b_proj\.weight", "absorbed"),
    trunk(ATTENTION + r"(q_a|kv_a)_layernorm\.weight", "exact"),
    trunk(ATTENTION + r"indexer\.(wq_b|wk)\.weight", "linear"),
    trunk(ATTENTION + r"indexer\.(weights_proj\.weight|k_norm\.(weight|bias))", "exact"),
    trunk(ATTENTION + r"indexer\.index_kpool_compress_(gate|ape)", "exact"),
    trunk(LAYER + r"mlp\.(shared_experts\.)?(gate|up|down)_proj\.weight", "linear"),
    trunk(LAYER + r"mlp\.gate\.(weight|e_score_correction_bias)", "exact"),
    trunk(LAYER + r"eh_proj\.weight", "linear"),
    trunk(LAYER + r"(enorm|hnorm|shared_head\.norm)\.weight", "exact"),
    trunk(r"model\.visual\..+", "exact"),
)


def weights(c: Glm5NextConfig) -> WeightMap:
    layers = c.num_hidden_layers
    experts = {
        layer: ExpertShape(
            c.n_routed_experts, c.hidden_size, c.moe_intermediate_size, draft=layer >= layers
        )
        for layer in range(layers + c.num_nextn_predict_layers)
        if c.sparse(layer)
    }
    shapes: Shapes = {
        PREFIX + "embed_tokens.weight": (c.vocab_size, c.hidden_size),
        PREFIX + "norm.weight": (c.hidden_size,),
    }
    if not c.tie_word_embeddings:
        shapes["lm_head.weight"] = (c.vocab_size, c.hidden_size)
    for layer in range(layers):
        prefix = f"{PREFIX}layers.{layer}"
        shapes |= _layer_shapes(prefix, c) | _mlp_shapes(f"{prefix}.mlp", c, c.sparse(layer))
        mixer = _linear_shapes if c.linear(layer) else _full_shapes
        shapes |= mixer(f"{prefix}.self_attn", c)
    return WeightMap(RULES, experts, shapes)


def _layer_shapes(prefix: str, c: Glm5NextConfig) -> Shapes:
    streams = c.hc_mult
    mixes = 2 * streams + streams * streams  # into the sublayer, out of it, between the streams
    shapes: Shapes = {
        f"{prefix}.{norm}_layernorm.weight": (c.hidden_size,)
        for norm in ("input", "post_attention")
    }
    for part in ("attn", "ffn"):
        shapes[f"{prefix}.hc_{part}_fn"] = (mixes, streams * c.hidden_size)
        shapes[f"{prefix}.hc_{part}_base"] = (mixes,)
        shapes[f"{prefix}.hc_{part}_scale"] = (3,)
    return shapes


def _linear_shapes(prefix: str, c: Glm5NextConfig) -> Shapes:
    kda, hidden = c.linear_attn_config, c.hidden_size
    shapes: Shapes = {
        f"{prefix}.A_log": (kda.num_heads,),
        f"{prefix}.dt_bias": (kda.width,),
        f"{prefix}.b_proj.weight": (kda.num_heads, hidden),
        f"{prefix}.o_norm.weight": (kda.head_dim,),
        f"{prefix}.o_proj.weight": (hidden, kda.width),
    }
    for part in "qkv":
        shapes[f"{prefix}.{part}_proj.weight"] = (kda.width, hidden)
        shapes[f"{prefix}.{part}_conv1d.weight"] = (kda.width, 1, kda.short_conv_kernel_size)
    for gate in "fg":
        shapes[f"{prefix}.{gate}_a_proj.weight"] = (kda.head_dim, hidden)
        shapes[f"{prefix}.{gate}_b_proj.weight"] = (kda.width, kda.head_dim)
    return shapes


def _full_shapes(prefix: str, c: Glm5NextConfig) -> Shapes:
    indexer = f"{prefix}.indexer"
    shapes = latent_attention_shapes(prefix, c) | indexer_shapes(indexer, c)
    return shapes | pool_shapes(indexer, c, c.index_kpool)


def _mlp_shapes(prefix: str, c: Glm5NextConfig, sparse: bool) -> Shapes:
    if not sparse:
        return swiglu_shapes(prefix, c.hidden_size, c.intermediate_size)
    shared = c.moe_intermediate_size * c.n_shared_experts
    return {
        f"{prefix}.gate.weight": (c.n_routed_experts, c.hidden_size),
        f"{prefix}.gate.e_score_correction_bias": (c.n_routed_experts,),
    } | swiglu_shapes(f"{prefix}.shared_experts", c.hidden_size, shared)


def sizes(c: Glm5NextConfig) -> Sizes:
    """State: a latent a position and a pooled key each few in the full layers; in the linear ones a
    matrix a head and the last inputs of the convolutions, whatever the length."""
    linear = sum(c.linear(layer) for layer in range(c.num_hidden_layers))
    full, kda = c.num_hidden_layers - linear, c.linear_attn_config
    position = c.kv_lora_rank + -(-c.index_head_dim // c.index_kpool)
    recurrent = kda.width * (kda.head_dim + 3 * (kda.short_conv_kernel_size - 1))
    heads = c.num_attention_heads
    attention = heads * (3 * c.kv_lora_rank + c.qk_nope_head_dim + c.v_head_dim)
    mixer = max(attention, 8 * kda.width)  # q, k, v before and after, gate, output
    mlp = 3 * max(c.intermediate_size, c.moe_intermediate_size * c.n_shared_experts)
    # Streams in and out, normed input, both outputs; then the widest sublayer; quantised copies.
    row = 6 * ((2 * c.hc_mult + 3) * c.hidden_size + max(mixer, mlp)) + 4 * c.index_topk
    row += moe_scratch_bytes(c.hidden_size, c.num_experts_per_tok, c.moe_intermediate_size)
    return Sizes(
        state_bytes=4 * full * position,
        activation_bytes=row,
        pair_bytes=4 * c.num_experts_per_tok * c.hidden_size,
        experts_per_token=c.num_experts_per_tok,
        sequence_bytes=4 * linear * recurrent + full * kept_bytes(c.index_kpool, c.index_head_dim),
    )


FAMILY = Outline("glm5_next", parse, weights, sizes)

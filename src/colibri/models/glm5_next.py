"""GLM-5.3-Flash, its text: KDA (linear attention) layers with every fourth MLA over a pooled
indexer, a residual of several streams (mHC), 288 experts behind a sigmoid router.

Source: Glm5NextForConditionalGeneration of transformers. The vision tower and the draft (MTP)
layer, which has a plain residual, are kept by conversions and not yet run.
"""

from colibri.container.weights import WeightMap
from colibri.experts.base import ExpertExecutor
from colibri.kvcache.pooled import kept_bytes
from colibri.layers.delta import DeltaCore, KimiDeltaAttention
from colibri.layers.hyper import Streams
from colibri.layers.linear import Projections
from colibri.layers.mla import LatentAttention
from colibri.layers.rope import NO_ROPE
from colibri.models.family import Family, Sizes, moe_scratch_bytes
from colibri.models.glm import expert_layers, glm_rules, mlp_loader, mlp_shapes
from colibri.models.glm5_next_config import Glm5NextConfig, parse
from colibri.models.hyper import HyperAssembly, hyper_shapes
from colibri.models.loader import TrunkLoader
from colibri.models.mla import load_attention, load_indexer
from colibri.models.mla_names import indexer_shapes, latent_attention_shapes, pool_shapes
from colibri.models.names import Shapes, outer_shapes, trunk

ROOT = "model.language_model"
_LAYER = r"model\.language_model\.layers\.(?P<layer>\d+)\."
_ATTENTION = _LAYER + r"self_attn\."

RULES = (
    *glm_rules(r"model\.language_model\."),
    trunk(_LAYER + r"hc_(attn|ffn)_(fn|base|scale)", "exact"),
    trunk(_ATTENTION + r"(f_a|f_b|g_a|g_b)_proj\.weight", "linear"),
    trunk(_ATTENTION + r"(b_proj|[qkv]_conv1d|o_norm)\.weight", "exact"),
    trunk(_ATTENTION + r"(A_log|dt_bias)", "exact"),
    trunk(_ATTENTION + r"indexer\.index_kpool_compress_(gate|ape)", "exact"),
    trunk(r"model\.visual\..+", "exact"),
)


def weights(c: Glm5NextConfig) -> WeightMap:
    shapes = outer_shapes(c, ROOT)
    for layer in range(c.num_hidden_layers):
        prefix = f"{ROOT}.layers.{layer}"
        shapes |= hyper_shapes(prefix, c.hc_mult, c.hidden_size)
        shapes |= mlp_shapes(f"{prefix}.mlp", c, c.sparse(layer))
        mixer = _linear_shapes if c.linear(layer) else _full_shapes
        shapes |= mixer(f"{prefix}.self_attn", c)
    return WeightMap(RULES, expert_layers(c), shapes)


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


def sizes(c: Glm5NextConfig) -> Sizes:
    """State: a latent a position and a pooled key each few in the full layers; in the linear ones a
    matrix a head and the last inputs of the convolutions, whatever the length."""
    linear = sum(c.linear(layer) for layer in range(c.num_hidden_layers))
    full, kda = c.num_hidden_layers - linear, c.linear_attn_config
    position = c.kv_lora_rank + -(-c.index_head_dim // c.index_kpool)
    heads = c.num_attention_heads
    attention = heads * (3 * c.kv_lora_rank + c.qk_nope_head_dim + c.v_head_dim)
    mixer = max(attention, 8 * kda.width)  # q, k, v before and after, gate, output
    mlp = 3 * max(c.intermediate_size, c.moe_intermediate_size * c.n_shared_experts)
    # The streams, twice more where a guess is made of them; what a half reads, that normed, what it
    # makes; then the widest sublayer; quantised copies.
    row = 6 * ((3 * c.hc_mult + 3) * c.hidden_size + max(mixer, mlp)) + 4 * c.index_topk
    row += moe_scratch_bytes(c.hidden_size, c.num_experts_per_tok, c.moe_intermediate_size)
    kept = full * kept_bytes(c.index_kpool, c.index_head_dim)
    return Sizes(
        state_bytes=4 * full * position,
        activation_bytes=row,
        pair_bytes=4 * c.num_experts_per_tok * c.hidden_size,
        experts_per_token=c.num_experts_per_tok,
        sequence_bytes=linear * kda.shape.state_bytes + kept,
        index_pool=c.index_kpool if full else 0,
    )


def build(c: Glm5NextConfig, load: TrunkLoader, experts: ExpertExecutor) -> HyperAssembly:
    def mixer(layer: int) -> KimiDeltaAttention | LatentAttention:
        prefix = f"{ROOT}.layers.{layer}.self_attn"
        if c.linear(layer):
            return _delta_attention(c, load, layer, prefix)
        indexer = load_indexer(c, load, prefix, layer, NO_ROPE, pooled=True)
        return load_attention(c, load, prefix, layer, NO_ROPE, indexer, eps=c.rms_norm_eps)

    return HyperAssembly(
        c,
        load,
        NO_ROPE,
        mixer,
        mlp_loader(c, load, experts, ROOT, c.swiglu_limit),
        ROOT,
        residual=Streams(c.hc_mult),
        streams=c.hc_mult,
        iterations=c.hc_sinkhorn_iters,
        eps=c.hc_eps,
    )


def _delta_attention(
    c: Glm5NextConfig, load: TrunkLoader, layer: int, prefix: str
) -> KimiDeltaAttention:
    kda = c.linear_attn_config
    convs = [f"{part}_conv1d" for part in "qkv"]
    eps, lower = c.rms_norm_eps, kda.lower
    rule = load.delta_rule(kda.shape, prefix, convs, "o_norm", eps=eps, silu=False, lower=lower)
    wide = [load.linear(f"{prefix}.{part}_proj") for part in "qkv"]
    beta = load.exact_beside(f"{prefix}.b_proj")
    narrow = [load.linear(f"{prefix}.{part}_proj") for part in ("f_a", "g_a")]
    return KimiDeltaAttention(
        DeltaCore(layer, rule),
        Projections(*wide, beta, *narrow),
        *(load.linear(f"{prefix}.{part}_proj") for part in ("f_b", "g_b", "o")),
    )


FAMILY = Family("glm5_next", parse, weights, sizes, build)

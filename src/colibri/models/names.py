"""Tensor names that the families share, as rules and as required shapes."""

from colibri.container.weights import Kind, Rule
from colibri.models.config import DecoderConfig

Shapes = dict[str, tuple[int, ...]]

ROOT = r"model\."
LAYER = r"model\.layers\.(?P<layer>\d+)\."
EXPERT = r"experts\.(?P<expert>\d+)\."


def trunk(pattern: str, kind: Kind) -> Rule:
    return Rule(pattern, "trunk", kind)


def layer_pattern(root: str) -> str:
    return root + r"layers\.(?P<layer>\d+)\."


def common_rules(root: str = ROOT) -> tuple[Rule, ...]:
    """Embedding, head, last norm and layers of the Hugging Face decoders."""
    return (
        trunk(root + r"embed_tokens\.weight", "embedding"),
        trunk(r"lm_head\.weight", "linear"),
        trunk(root + r"norm\.weight", "exact"),
        *layer_rules(layer_pattern(root)),
    )


def layer_rules(layer: str = LAYER) -> tuple[Rule, ...]:
    """Norms, softmax attention, dense and shared MLPs of a layer, routers."""
    return (
        trunk(layer + r"(input|post_attention)_layernorm\.weight", "exact"),
        trunk(layer + r"self_attn\.[qkvo]_proj\.weight", "linear"),
        trunk(layer + r"self_attn\.[qkvo]_proj\.bias", "exact"),
        trunk(layer + r"self_attn\.[qk]_norm\.weight", "exact"),
        trunk(layer + r"mlp\.(gate|up|down)_proj\.weight", "linear"),
        trunk(layer + r"mlp\.shared_experts?\.(gate|up|down)_proj\.weight", "linear"),
        trunk(layer + r"mlp\.shared_expert_gate\.weight", "exact"),
        trunk(layer + r"(mlp|block_sparse_moe)\.gate\.weight", "exact"),
        Rule(layer + r"self_attn\.rotary_emb\.inv_freq", "drop"),
    )


def expert_rules(
    block: str = "mlp",
    gate: str = "gate_proj",
    up: str = "up_proj",
    down: str = "down_proj",
    layer: str = LAYER,
) -> tuple[Rule, ...]:
    """Experts one by one, and fused over the experts of a layer.

    They go first in a family's list: nearly every tensor is one."""
    prefix = layer + block + r"\."
    return (
        Rule(prefix + EXPERT + gate + r"\.weight", "expert", part="gate"),
        Rule(prefix + EXPERT + up + r"\.weight", "expert", part="up"),
        Rule(prefix + EXPERT + down + r"\.weight", "expert", part="down"),
        Rule(prefix + r"experts\.gate_up_proj", "expert", part="gate_up"),
        Rule(prefix + r"experts\.down_proj", "expert", part="down"),
    )


def outer_shapes(config: DecoderConfig, root: str = "model") -> Shapes:
    shapes: Shapes = {
        f"{root}.embed_tokens.weight": (config.vocab_size, config.hidden_size),
        f"{root}.norm.weight": (config.hidden_size,),
    }
    if not config.tie_word_embeddings:
        shapes["lm_head.weight"] = (config.vocab_size, config.hidden_size)
    for layer in range(config.num_hidden_layers):
        for norm in ("input_layernorm", "post_attention_layernorm"):
            shapes[f"{root}.layers.{layer}.{norm}.weight"] = (config.hidden_size,)
    return shapes


def swiglu_shapes(prefix: str, hidden: int, inner: int) -> Shapes:
    return {
        f"{prefix}.gate_proj.weight": (inner, hidden),
        f"{prefix}.up_proj.weight": (inner, hidden),
        f"{prefix}.down_proj.weight": (hidden, inner),
    }


def attention_shapes(
    prefix: str, config: DecoderConfig, head_dim: int, bias: bool, out_bias: bool = False
) -> Shapes:
    widths = {
        "q": config.num_attention_heads * head_dim,
        "k": config.kv_heads * head_dim,
        "v": config.kv_heads * head_dim,
    }
    shapes: Shapes = {}
    for part, width in widths.items():
        shapes[f"{prefix}.{part}_proj.weight"] = (width, config.hidden_size)
        if bias:
            shapes[f"{prefix}.{part}_proj.bias"] = (width,)
    shapes[f"{prefix}.o_proj.weight"] = (config.hidden_size, widths["q"])
    if out_bias:
        shapes[f"{prefix}.o_proj.bias"] = (config.hidden_size,)
    return shapes

"""Qwen3.5-MoE, Qwen3.6, Qwen3.8: gated DeltaNet layers with every fourth gated softmax attention,
256 experts and a shared one behind a sigmoid gate; norms store what they differ from 1 by.

Source: Qwen3_5MoeForCausalLM of transformers. The vision tower is left out; the draft layer (MTP)
is kept beside the model, not yet run.
"""

from dataclasses import replace

from colibri.container.weights import ExpertShape, Rule, WeightMap
from colibri.experts.base import ExpertExecutor
from colibri.layers.attention import Attention
from colibri.layers.delta import DeltaCore, GatedDeltaNet
from colibri.layers.linear import Projections
from colibri.layers.moe import MoE
from colibri.layers.rope import Rope
from colibri.models.assembly import Assembly
from colibri.models.family import Family, Sizes, moe_scratch_bytes
from colibri.models.gqa import rope_of
from colibri.models.loader import TrunkLoader
from colibri.models.names import (
    Shapes,
    attention_shapes,
    common_rules,
    expert_rules,
    layer_pattern,
    layer_rules,
    outer_shapes,
    swiglu_shapes,
    trunk,
)
from colibri.models.qwen3_5_config import Qwen35MoeConfig, parse
from colibri.routing.softmax import SoftmaxRouter

_NORM_OFFSET = 1.0


def weights(c: Qwen35MoeConfig) -> WeightMap:
    layers = range(c.num_hidden_layers)
    shapes = outer_shapes(c, c.root)
    for layer in layers:
        prefix = f"{c.root}.layers.{layer}"
        shapes |= _mlp_shapes(f"{prefix}.mlp", c)
        if c.linear(layer):
            shapes |= _linear_shapes(f"{prefix}.linear_attn", c)
        else:
            shapes |= _full_shapes(f"{prefix}.self_attn", c)
    sizes = (c.num_experts, c.hidden_size, c.moe_intermediate_size)
    drafts = range(len(layers), len(layers) + c.mtp_num_hidden_layers)
    experts = {n: ExpertShape(*sizes) for n in layers}
    experts |= {n: ExpertShape(*sizes, draft=True) for n in drafts}
    return WeightMap((*_rules(c), *_draft_rules(drafts)), experts, shapes)


def _rules(c: Qwen35MoeConfig) -> tuple[Rule, ...]:
    root = c.root.replace(".", r"\.") + r"\."
    linear = layer_pattern(root) + r"linear_attn\."
    return (
        *expert_rules(layer=layer_pattern(root)),
        *common_rules(root),
        trunk(linear + r"(in_proj_qkv|in_proj_z|out_proj)\.weight", "linear"),
        trunk(linear + r"(in_proj_a|in_proj_b|conv1d|norm)\.weight", "exact"),
        trunk(linear + r"(A_log|dt_bias)", "exact"),
        Rule(r"model\.visual\..+", "drop"),
    )


def _draft_rules(drafts: range) -> tuple[Rule, ...]:
    """Draft layers are numbered anew in the checkpoint, and behind the model's here."""
    rules = [
        trunk(r"mtp\.fc\.weight", "linear"),
        trunk(r"mtp\.(norm|pre_fc_norm_embedding|pre_fc_norm_hidden)\.weight", "exact"),
    ]
    for number, layer in enumerate(drafts):
        name = rf"mtp\.layers\.{number}\."
        own = (*expert_rules(layer=name), *layer_rules(name))
        rules += [replace(rule, layer=layer) for rule in own]
    return tuple(rules)


def _full_shapes(prefix: str, c: Qwen35MoeConfig) -> Shapes:
    dim, query = c.attention_dim, c.num_attention_heads * c.attention_dim
    return attention_shapes(prefix, c, dim, bias=False) | {
        f"{prefix}.q_proj.weight": (2 * query, c.hidden_size),  # a head's query, then its gate
        f"{prefix}.q_norm.weight": (dim,),
        f"{prefix}.k_norm.weight": (dim,),
    }


def _linear_shapes(prefix: str, c: Qwen35MoeConfig) -> Shapes:
    delta, hidden = c.delta, c.hidden_size
    return {
        f"{prefix}.in_proj_qkv.weight": (delta.channels, hidden),
        f"{prefix}.in_proj_z.weight": (delta.values, hidden),
        f"{prefix}.in_proj_b.weight": (delta.heads, hidden),
        f"{prefix}.in_proj_a.weight": (delta.heads, hidden),
        f"{prefix}.conv1d.weight": (delta.channels, 1, delta.taps),
        f"{prefix}.A_log": (delta.heads,),
        f"{prefix}.dt_bias": (delta.heads,),
        f"{prefix}.norm.weight": (delta.value_dim,),
        f"{prefix}.out_proj.weight": (hidden, delta.values),
    }


def _mlp_shapes(prefix: str, c: Qwen35MoeConfig) -> Shapes:
    return {
        f"{prefix}.gate.weight": (c.num_experts, c.hidden_size),
        f"{prefix}.shared_expert_gate.weight": (1, c.hidden_size),
    } | swiglu_shapes(f"{prefix}.shared_expert", c.hidden_size, c.shared_expert_intermediate_size)


def sizes(c: Qwen35MoeConfig) -> Sizes:
    linear = sum(c.linear(layer) for layer in range(c.num_hidden_layers))
    full, delta, width = c.num_hidden_layers - linear, c.delta, c.attention_dim
    attention = (4 * c.num_attention_heads + 2 * c.kv_heads) * width
    # Channels before and after the convolution, gate, output, what the gates make of them.
    mixer = 2 * delta.channels + 2 * delta.values + 4 * delta.heads
    # Residual, normed input, both outputs; then the widest sublayer; quantised copies.
    row = 5 * c.hidden_size + max(attention, mixer, 3 * c.shared_expert_intermediate_size)
    scratch = moe_scratch_bytes(c.hidden_size, c.num_experts_per_tok, c.moe_intermediate_size)
    return Sizes(
        state_bytes=4 * full * 2 * c.kv_heads * width,
        activation_bytes=6 * row + scratch,
        pair_bytes=4 * c.num_experts_per_tok * c.hidden_size,
        experts_per_token=c.num_experts_per_tok,
        sequence_bytes=linear * delta.state_bytes,
    )


def build(c: Qwen35MoeConfig, load: TrunkLoader, experts: ExpertExecutor) -> Assembly:
    rope, router = rope_of(c), SoftmaxRouter(c.num_experts_per_tok, renormalize=True)

    def mixer(layer: int) -> Attention | GatedDeltaNet:
        prefix = f"{c.root}.layers.{layer}"
        if c.linear(layer):
            return _delta_net(c, load, layer, f"{prefix}.linear_attn")
        return _attention(c, load, layer, f"{prefix}.self_attn", rope)

    def mlp(layer: int) -> MoE:
        prefix = f"{c.root}.layers.{layer}.mlp"
        shared, gate = f"{prefix}.shared_expert", f"{prefix}.shared_expert_gate"
        return load.moe(
            layer, f"{prefix}.gate", router, experts, load.swiglu(shared), load.exact(gate)
        )

    return Assembly(c, load, rope, mixer, mlp, c.root, _NORM_OFFSET)


def _attention(
    c: Qwen35MoeConfig, load: TrunkLoader, layer: int, prefix: str, rope: Rope
) -> Attention:
    return Attention(
        layer=layer,
        heads=c.num_attention_heads,
        kv_heads=c.kv_heads,
        head_dim=c.attention_dim,
        qkv_proj=Projections(*(load.linear(f"{prefix}.{p}_proj") for p in "qkv")),
        o_proj=load.linear(f"{prefix}.o_proj"),
        rope=rope,
        q_norm=load.rms_norm(f"{prefix}.q_norm", c.rms_norm_eps, _NORM_OFFSET),
        k_norm=load.rms_norm(f"{prefix}.k_norm", c.rms_norm_eps, _NORM_OFFSET),
        norm_per_head=True,
        gated=True,
    )


def _delta_net(c: Qwen35MoeConfig, load: TrunkLoader, layer: int, prefix: str) -> GatedDeltaNet:
    rule = load.delta_rule(c.delta, prefix, ["conv1d"], "norm", eps=c.rms_norm_eps, silu=True)
    wide = [load.linear(f"{prefix}.in_proj_{part}") for part in ("qkv", "z")]
    narrow = [load.exact_beside(f"{prefix}.in_proj_{part}") for part in ("b", "a")]
    out = load.linear(f"{prefix}.out_proj")
    return GatedDeltaNet(DeltaCore(layer, rule), Projections(*wide, *narrow), out)


FAMILY = Family("qwen3_5_moe", parse, weights, sizes, build)

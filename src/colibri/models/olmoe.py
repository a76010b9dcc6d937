"""OLMoE: softmax router without renormalisation; q/k norm over the whole projection; optional
clipping of q, k, v.

Source: OlmoeForCausalLM of transformers. `intermediate_size` is the width of one expert.
"""

from collections.abc import Mapping
from typing import Any

from colibri.container.weights import ExpertShape, WeightMap
from colibri.experts.base import ExpertExecutor
from colibri.layers.moe import MoE
from colibri.models.assembly import Assembly
from colibri.models.config import in_range, parse_config
from colibri.models.family import Family, Sizes
from colibri.models.gqa import GQAConfig, gqa_attention, gqa_sizes, rope_of
from colibri.models.loader import TrunkLoader
from colibri.models.names import attention_shapes, common_rules, expert_rules, outer_shapes
from colibri.routing.softmax import SoftmaxRouter


class OlmoeConfig(GQAConfig, frozen=True, kw_only=True):
    intermediate_size: int
    num_experts: int
    num_experts_per_tok: int
    norm_topk_prob: bool = False
    clip_qkv: float | None = None

    def check(self) -> None:
        super().check()
        in_range("intermediate_size", self.intermediate_size, 1, 1 << 20)
        in_range("num_experts", self.num_experts, 1, 1 << 16)
        in_range("num_experts_per_tok", self.num_experts_per_tok, 1, self.num_experts)
        if self.clip_qkv is not None:
            in_range("clip_qkv", self.clip_qkv, 1e-6, 1e9)


def parse(config: Mapping[str, Any]) -> OlmoeConfig:
    return parse_config(config, OlmoeConfig)


def weights(config: OlmoeConfig) -> WeightMap:
    shapes = outer_shapes(config)
    hidden, width = config.hidden_size, config.attention_dim
    for layer in range(config.num_hidden_layers):
        prefix = f"model.layers.{layer}"
        shapes |= attention_shapes(
            f"{prefix}.self_attn", config, width, config.attention_bias, config.attention_bias
        )
        shapes[f"{prefix}.self_attn.q_norm.weight"] = (config.num_attention_heads * width,)
        shapes[f"{prefix}.self_attn.k_norm.weight"] = (config.kv_heads * width,)
        shapes[f"{prefix}.mlp.gate.weight"] = (config.num_experts, hidden)
    shape = ExpertShape(config.num_experts, hidden, config.intermediate_size)
    experts = dict.fromkeys(range(config.num_hidden_layers), shape)
    return WeightMap(expert_rules() + common_rules(), experts, shapes)


def sizes(config: OlmoeConfig) -> Sizes:
    return gqa_sizes(config, 0, config.num_experts_per_tok, config.intermediate_size)


def build(config: OlmoeConfig, load: TrunkLoader, experts: ExpertExecutor) -> Assembly:
    rope = rope_of(config)
    router = SoftmaxRouter(config.num_experts_per_tok, config.norm_topk_prob)

    def mlp(layer: int) -> MoE:
        return load.moe(layer, f"model.layers.{layer}.mlp.gate", router, experts)

    def mixer(layer: int) -> Any:
        return gqa_attention(
            config,
            load,
            layer,
            rope,
            bias=config.attention_bias,
            out_bias=config.attention_bias,
            qk_norm=True,
            clip=config.clip_qkv,
        )

    return Assembly(config, load, rope, mixer, mlp)


FAMILY = Family("olmoe", parse, weights, sizes, build)

"""Mixtral: softmax router over few large experts, weights divided by their sum; optional sliding
window.

Source: MixtralForCausalLM of transformers. Experts are named w1 (gate), w3 (up), w2 (down).
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


class MixtralConfig(GQAConfig, frozen=True, kw_only=True):
    rope_theta: float | None = 1e6
    intermediate_size: int
    num_local_experts: int
    num_experts_per_tok: int

    def check(self) -> None:
        super().check()
        in_range("intermediate_size", self.intermediate_size, 1, 1 << 20)
        in_range("num_local_experts", self.num_local_experts, 1, 1 << 16)
        in_range("num_experts_per_tok", self.num_experts_per_tok, 1, self.num_local_experts)


def parse(config: Mapping[str, Any]) -> MixtralConfig:
    return parse_config(config, MixtralConfig)


def weights(config: MixtralConfig) -> WeightMap:
    shapes = outer_shapes(config)
    for layer in range(config.num_hidden_layers):
        prefix = f"model.layers.{layer}"
        shapes |= attention_shapes(f"{prefix}.self_attn", config, config.attention_dim, False)
        shapes[f"{prefix}.block_sparse_moe.gate.weight"] = (
            config.num_local_experts,
            config.hidden_size,
        )
    shape = ExpertShape(config.num_local_experts, config.hidden_size, config.intermediate_size)
    experts = dict.fromkeys(range(config.num_hidden_layers), shape)
    return WeightMap(
        expert_rules("block_sparse_moe", "w1", "w3", "w2") + common_rules(), experts, shapes
    )


def sizes(config: MixtralConfig) -> Sizes:
    return gqa_sizes(config, 0, config.num_experts_per_tok, config.intermediate_size)


def build(config: MixtralConfig, load: TrunkLoader, experts: ExpertExecutor) -> Assembly:
    rope = rope_of(config)
    router = SoftmaxRouter(config.num_experts_per_tok, renormalize=True)

    def mlp(layer: int) -> MoE:
        return load.moe(layer, f"model.layers.{layer}.block_sparse_moe.gate", router, experts)

    return Assembly(config, load, rope, lambda layer: gqa_attention(config, load, layer, rope), mlp)


FAMILY = Family("mixtral", parse, weights, sizes, build)

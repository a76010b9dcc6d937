"""Qwen1.5-MoE and Qwen2-MoE: biased q, k, v; a shared expert behind a sigmoid gate.

Source: Qwen2MoeForCausalLM of transformers.
"""

from collections.abc import Mapping
from typing import Any

from colibri.container.weights import WeightMap
from colibri.experts.base import ExpertExecutor
from colibri.models.assembly import Assembly
from colibri.models.config import in_range, parse_config
from colibri.models.family import Family, Sizes
from colibri.models.gqa import gqa_attention, rope_of
from colibri.models.loader import TrunkLoader
from colibri.models.names import Shapes, swiglu_shapes
from colibri.models.qwen_moe import ALIASES, QwenMoeConfig, qwen_mlp, qwen_sizes, qwen_weights


class Qwen2MoeConfig(QwenMoeConfig, frozen=True, kw_only=True):
    shared_expert_intermediate_size: int
    qkv_bias: bool = True

    def check(self) -> None:
        super().check()
        in_range(
            "shared_expert_intermediate_size", self.shared_expert_intermediate_size, 1, 1 << 24
        )


def parse(config: Mapping[str, Any]) -> Qwen2MoeConfig:
    return parse_config(config, Qwen2MoeConfig, ALIASES)


def weights(config: Qwen2MoeConfig) -> WeightMap:
    hidden, inner = config.hidden_size, config.shared_expert_intermediate_size
    sparse = {f"model.layers.{i}" for i in range(config.num_hidden_layers) if config.sparse(i)}

    def shared(prefix: str) -> Shapes:
        if prefix not in sparse:
            return {}
        gate: Shapes = {f"{prefix}.mlp.shared_expert_gate.weight": (1, hidden)}
        return gate | swiglu_shapes(f"{prefix}.mlp.shared_expert", hidden, inner)

    return qwen_weights(config, config.qkv_bias, False, shared)


def sizes(config: Qwen2MoeConfig) -> Sizes:
    return qwen_sizes(config, config.shared_expert_intermediate_size)


def build(config: Qwen2MoeConfig, load: TrunkLoader, experts: ExpertExecutor) -> Assembly:
    rope = rope_of(config)

    def mixer(layer: int) -> Any:
        return gqa_attention(config, load, layer, rope, bias=config.qkv_bias)

    return Assembly(config, load, rope, mixer, qwen_mlp(config, load, experts, shared=True))


FAMILY = Family("qwen2_moe", parse, weights, sizes, build)

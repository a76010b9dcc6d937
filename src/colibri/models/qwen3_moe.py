"""Qwen3-MoE: q and k normed per head; no shared expert.

Source: Qwen3MoeForCausalLM of transformers.
"""

from collections.abc import Mapping
from typing import Any

from colibri.container.weights import WeightMap
from colibri.experts.base import ExpertExecutor
from colibri.models.assembly import Assembly
from colibri.models.config import parse_config
from colibri.models.family import Family
from colibri.models.gqa import gqa_attention, rope_of
from colibri.models.loader import TrunkLoader
from colibri.models.qwen_moe import ALIASES, QwenMoeConfig, qwen_mlp, qwen_sizes, qwen_weights


class Qwen3MoeConfig(QwenMoeConfig, frozen=True, kw_only=True):
    pass


def parse(config: Mapping[str, Any]) -> Qwen3MoeConfig:
    return parse_config(config, Qwen3MoeConfig, ALIASES)


def weights(config: Qwen3MoeConfig) -> WeightMap:
    width = (config.attention_dim,)
    return qwen_weights(
        config,
        config.attention_bias,
        config.attention_bias,
        lambda prefix: {f"{prefix}.self_attn.{p}_norm.weight": width for p in "qk"},
    )


def build(config: Qwen3MoeConfig, load: TrunkLoader, experts: ExpertExecutor) -> Assembly:
    rope = rope_of(config)

    def mixer(layer: int) -> Any:
        return gqa_attention(
            config,
            load,
            layer,
            rope,
            bias=config.attention_bias,
            out_bias=config.attention_bias,
            qk_norm=True,
            norm_per_head=True,
        )

    return Assembly(config, load, rope, mixer, qwen_mlp(config, load, experts, shared=False))


FAMILY = Family("qwen3_moe", parse, weights, qwen_sizes, build)

"""Released models as shapes: the config.json fields that decide sizes, at full width.

`NAME:LAYERS` takes the first LAYERS layers, so that a model too large for this disk can be measured
at its real width. No draft layers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from colibri.errors import ConfigError

_QWEN3: dict[str, Any] = {
    "model_type": "qwen3_moe",
    "vocab_size": 151936,
    "hidden_size": 2048,
    "num_hidden_layers": 48,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "moe_intermediate_size": 768,
    "intermediate_size": 6144,
    "norm_topk_prob": True,
    "rope_theta": 1e6,
    "rms_norm_eps": 1e-6,
    "max_position_embeddings": 40960,
}
_QWEN3_6: dict[str, Any] = {
    "model_type": "qwen3_5_moe_text",
    "vocab_size": 248320,
    "hidden_size": 2048,
    "num_hidden_layers": 40,
    "num_attention_heads": 16,
    "num_key_value_heads": 2,
    "head_dim": 256,
    "full_attention_interval": 4,
    "num_experts": 256,
    "num_experts_per_tok": 8,
    "moe_intermediate_size": 512,
    "shared_expert_intermediate_size": 512,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4,
    "rope_parameters": {
        "rope_type": "default",
        "rope_theta": 10000000,
        "partial_rotary_factor": 0.25,
    },
    "rms_norm_eps": 1e-6,
    "max_position_embeddings": 262144,
}
_OLMOE: dict[str, Any] = {
    "model_type": "olmoe",
    "vocab_size": 50304,
    "hidden_size": 2048,
    "num_hidden_layers": 16,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "num_experts": 64,
    "num_experts_per_tok": 8,
    "intermediate_size": 1024,
    "norm_topk_prob": False,
    "rope_theta": 10000.0,
    "rms_norm_eps": 1e-5,
    "max_position_embeddings": 4096,
}
_MIXTRAL: dict[str, Any] = {
    "model_type": "mixtral",
    "vocab_size": 32000,
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
    "intermediate_size": 14336,
    "rope_theta": 1e6,
    "rms_norm_eps": 1e-5,
    "max_position_embeddings": 32768,
}
_GLM_5_2: dict[str, Any] = {
    "model_type": "glm_moe_dsa",
    "vocab_size": 154880,
    "hidden_size": 6144,
    "num_hidden_layers": 78,
    "num_attention_heads": 64,
    "num_key_value_heads": 64,
    "intermediate_size": 12288,
    "moe_intermediate_size": 2048,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_experts_per_tok": 8,
    "first_k_dense_replace": 3,
    "routed_scaling_factor": 2.5,
    "q_lora_rank": 2048,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 192,
    "qk_rope_head_dim": 64,
    "v_head_dim": 256,
    "index_topk": 2048,
    "index_n_heads": 32,
    "index_head_dim": 128,
    "index_topk_freq": 4,
    "index_skip_topk_offset": 3,
    "indexer_rope_interleave": True,
    "rope_parameters": {"rope_type": "default", "rope_theta": 8000000},
    "rms_norm_eps": 1e-5,
    "max_position_embeddings": 1048576,
}
_GLM_5_3_FLASH: dict[str, Any] = {
    "model_type": "glm5_next",
    "tie_word_embeddings": False,
    "text_config": {
        "vocab_size": 154880,
        "hidden_size": 4096,
        "num_hidden_layers": 45,
        "num_attention_heads": 64,
        "intermediate_size": 12288,
        "moe_intermediate_size": 2048,
        "n_routed_experts": 288,
        "n_shared_experts": 1,
        "num_experts_per_tok": 8,
        "first_k_dense_replace": 3,
        "routed_scaling_factor": 2.5,
        "q_lora_rank": 1536,
        "kv_lora_rank": 512,
        "qk_nope_head_dim": 256,
        "qk_rope_head_dim": 0,
        "v_head_dim": 256,
        "index_topk": 2048,
        "index_n_heads": 32,
        "index_head_dim": 128,
        "index_kpool": 4,
        "linear_attn_config": {
            "num_heads": 64,
            "head_dim": 128,
            "short_conv_kernel_size": 4,
            "gate_lower_bound": -5.0,
        },
        "hc_mult": 4,
        "hc_eps": 1e-6,
        "hc_sinkhorn_iters": 20,
        "swiglu_limit": 10.0,
        "rms_norm_eps": 1e-5,
        "max_position_embeddings": 1048576,
    },
}
_KNOWN = {
    "olmoe-1b-7b": _OLMOE,
    "qwen3-30b-a3b": _QWEN3,
    "qwen3.6-35b-a3b": _QWEN3_6,
    "mixtral-8x7b": _MIXTRAL,
    "glm-5.2": _GLM_5_2,
    "glm-5.3-flash": _GLM_5_3_FLASH,
}
_NEEDS_LAYERS = ("glm-5.2", "glm-5.3-flash")  # whole, they take 400 and 165 GB


@dataclass(frozen=True)
class Shape:
    """`name` is also the folder's: letters, digits, dots and dashes."""

    name: str
    config: Mapping[str, Any]


def shape_names() -> list[str]:
    return [f"{name}:LAYERS" if name in _NEEDS_LAYERS else name for name in _KNOWN]


def find_shape(text: str) -> Shape:
    """The shape of "NAME" or "NAME:LAYERS". Raises ConfigError."""
    name, colon, count = text.partition(":")
    if name not in _KNOWN:
        raise ConfigError(f"--shape {name!r} is unknown; choose from {', '.join(shape_names())}")
    config = dict(_KNOWN[name])
    if name in _NEEDS_LAYERS and not colon:
        raise ConfigError(f"--shape {name} is too large as a whole: write {name}:LAYERS")
    if colon:
        _cut(config, name, count)
    return Shape(f"{name}-{count}" if colon else name, config)


def _cut(config: dict[str, Any], name: str, count: str) -> None:
    text = config
    if "text_config" in config:
        text = config["text_config"] = dict(config["text_config"])
    most = text["num_hidden_layers"]
    if not (count.isascii() and count.isdecimal()) or not 1 <= int(count) <= most:
        raise ConfigError(f"--shape {name}:{count}: LAYERS is a whole number from 1 to {most}")
    text["num_hidden_layers"] = int(count)
    if "first_k_dense_replace" in text:
        text["first_k_dense_replace"] = min(text["first_k_dense_replace"], int(count))

"""Configs that are wrong: every one names its field; null means absent; none ends in a
traceback."""

import json
from typing import Any

import pytest

import golden
from colibri.errors import ColibriError, ConfigError, UnsupportedModelError
from colibri.models.registry import family_for


def config_of(family: str, **changes: Any) -> dict[str, Any]:
    config: dict[str, Any] = json.loads((golden.tiny(family) / "config.json").read_text("utf-8"))
    if "text_config" in config:
        return config | {"text_config": config["text_config"] | changes}
    return config | changes


def weights_of(config: dict[str, Any]) -> Any:
    return family_for(config).weights_of(config)


COMMON = [
    ("vocab_size", 0),
    ("vocab_size", -5),
    ("vocab_size", "128"),
    ("vocab_size", 1.5),
    ("vocab_size", True),
    ("hidden_size", 1 << 40),
    ("hidden_size", 10**30),
    ("num_hidden_layers", 0),
    ("num_hidden_layers", 10**9),
    ("num_attention_heads", 0),
    ("num_experts_per_tok", 0),
    ("num_experts_per_tok", 10**6),
    ("rms_norm_eps", -1.0),
    ("rms_norm_eps", [1e-6]),
    ("max_position_embeddings", 0),
    ("hidden_act", "gelu"),
]
REQUIRED = ["vocab_size", "hidden_size", "num_hidden_layers", "num_experts_per_tok"]


@pytest.mark.parametrize("family", golden.FAMILIES)
@pytest.mark.parametrize(("field", "value"), COMMON)
def test_wrong_value_is_refused_by_name(family: str, field: str, value: object) -> None:
    with pytest.raises((ConfigError, UnsupportedModelError), match=field):
        weights_of(config_of(family, **{field: value}))


@pytest.mark.parametrize("family", golden.FAMILIES)
@pytest.mark.parametrize("field", REQUIRED)
def test_null_means_absent(family: str, field: str) -> None:
    with pytest.raises(ConfigError, match=field):
        weights_of(config_of(family, **{field: None}))


@pytest.mark.parametrize("family", golden.FAMILIES)
def test_optional_nulls_are_fine(family: str) -> None:
    weights_of(config_of(family, rope_scaling=None, sliding_window=None, attention_bias=None))


@pytest.mark.parametrize(
    ("family", "changes", "field"),
    [
        ("mixtral", {"num_key_value_heads": 3}, "num_key_value_heads"),
        ("mixtral", {"num_local_experts": 0}, "num_local_experts"),
        ("mixtral", {"sliding_window": 0}, "sliding_window"),
        ("mixtral", {"head_dim": 15}, "head_dim"),
        ("olmoe", {"num_experts": 0}, "num_experts"),
        ("olmoe", {"num_attention_heads": 7, "num_key_value_heads": 7}, "hidden_size"),
        ("qwen3_moe", {"num_experts": 4}, "num_local_experts"),
        ("qwen3_moe", {"use_sliding_window": True}, "use_sliding_window"),
        ("qwen2_moe", {"mlp_only_layers": [99]}, "mlp_only_layers"),
        ("qwen2_moe", {"mlp_only_layers": "1"}, "mlp_only_layers"),
        ("qwen2_moe", {"decoder_sparse_step": 0}, "decoder_sparse_step"),
        ("glm_moe_dsa", {"mlp_layer_types": ["dense"]}, "mlp_layer_types"),
        ("glm_moe_dsa", {"mlp_layer_types": []}, "mlp_layer_types"),
        ("glm_moe_dsa", {"mlp_layer_types": ["dense"] * 4 + ["odd"]}, "mlp_layer_types"),
        ("glm_moe_dsa", {"indexer_types": ["full"] * 6}, "indexer_types"),
        ("glm_moe_dsa", {"indexer_types": ["shared"] * 5}, "indexer_types"),
        ("qwen2_moe", {"layer_types": ["full_attention"]}, "layer_types"),
        ("qwen2_moe", {"layer_types": 4}, "layer_types"),
        ("glm_moe_dsa", {"layer_types": [None] * 5}, "layer_types"),
        ("glm_moe_dsa", {"layer_types": []}, "layer_types"),
        ("glm_moe_dsa", {"routed_scaling_factor": float("nan")}, "routed_scaling_factor"),
        ("glm_moe_dsa", {"routed_scaling_factor": 1 << 62}, "routed_scaling_factor"),
        ("olmoe", {"clip_qkv": float("nan")}, "clip_qkv"),
        ("olmoe", {"clip_qkv": -8.0}, "clip_qkv"),
        ("glm_moe_dsa", {"n_group": 3}, "n_group"),
        ("glm_moe_dsa", {"n_group": 8, "topk_group": 1}, "num_experts_per_tok"),
        ("glm_moe_dsa", {"scoring_func": "softmax"}, "scoring_func"),
        ("glm_moe_dsa", {"index_head_dim": 8}, "index_head_dim"),
        ("qwen3_5_moe", {"layer_types": ["sliding_attention"] * 4}, "layer_types"),
        ("qwen3_5_moe", {"linear_num_key_heads": 3}, "linear_num_key_heads"),
        ("qwen3_5_moe", {"linear_conv_kernel_dim": 9}, "linear_conv_kernel_dim"),
        ("qwen3_5_moe", {"linear_value_head_dim": 0}, "linear_value_head_dim"),
        ("qwen3_5_moe", {"attn_output_gate": False}, "attn_output_gate"),
        ("qwen3_5_moe", {"attention_bias": True}, "attention_bias"),
        ("qwen3_5_moe", {"mtp_num_hidden_layers": 99}, "mtp_num_hidden_layers"),
        ("qwen3_5_moe", {"text_config": [1]}, "text_config"),
        ("qwen3_5_moe", {"rope_parameters": {"partial_rotary_factor": 2.0}}, "partial_rotary"),
        ("qwen3_5_moe", {"rope_parameters": {"partial_rotary_factor": 0.1}}, "partial_rotary"),
        ("glm_moe_dsa", {"qk_rope_head_dim": 7}, "qk_rope_head_dim"),
    ],
)
def test_contradictions(family: str, changes: dict[str, Any], field: str) -> None:
    with pytest.raises((ConfigError, UnsupportedModelError), match=field):
        weights_of(config_of(family, **changes))


@pytest.mark.parametrize(
    "rope",
    [
        {"rope_type": "longrope", "factor": 4.0},
        {"rope_type": "yarn"},
        {"rope_type": "yarn", "factor": 0.5},
        {"rope_type": "linear", "factor": "4"},
        {"rope_type": "default", "rope_theta": float("nan")},
        {"rope_type": "default", "rope_theta": -1},
        {"rope_type": "yarn", "factor": 2.0, "rope_theta": 1},
        {"rope_type": "yarn", "factor": 1e300},
        {"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 0},
        {"rope_type": "yarn", "factor": 2.0, "beta_fast": 0},
        {"rope_type": "yarn", "factor": 2.0, "beta_slow": -1},
        {"rope_type": "yarn", "factor": 2.0, "attention_factor": 1e300},
        {"rope_type": "yarn", "factor": 2.0, "mscale": 1e300, "mscale_all_dim": 1.0},
    ],
)
@pytest.mark.parametrize("family", [f for f in golden.FAMILIES if f != "glm5_next"])  # has none
def test_rope_is_refused_by_name(family: str, rope: dict[str, Any]) -> None:
    with pytest.raises(ColibriError, match="rope"):
        weights_of(config_of(family, rope_parameters=rope))


@pytest.mark.parametrize("family", golden.FAMILIES)
def test_both_spellings_of_rope_mean_the_same(family: str) -> None:
    from colibri.layers.rope import rope_from_config

    new = rope_from_config(
        16, 256, theta=None, scaling=None, parameters={"rope_type": "default", "rope_theta": 5e5}
    )
    old = rope_from_config(16, 256, theta=5e5, scaling=None, parameters=None)
    assert (new.inv_freq == old.inv_freq).all()


def test_unsupported_type_is_named_with_what_is_supported() -> None:
    with pytest.raises(UnsupportedModelError, match=r"'llama'.*glm_moe_dsa.*olmoe"):
        family_for({"model_type": "llama"})


@pytest.mark.parametrize("model_type", [None, 3, ["olmoe"], {}])
def test_model_type_must_be_a_name(model_type: object) -> None:
    with pytest.raises(ConfigError, match="model_type"):
        family_for({"model_type": model_type})


def test_indexer_layers_follow_the_frequency_rule() -> None:
    from colibri.models import glm_moe_dsa

    config = config_of(
        "glm_moe_dsa",
        indexer_types=None,
        mlp_layer_types=None,
        layer_types=None,
        num_hidden_layers=12,
        index_topk_freq=4,
        index_skip_topk_offset=3,
    )
    parsed = glm_moe_dsa.parse(config)
    assert [i for i in range(12) if parsed.indexed(i)] == [0, 1, 2, 6, 10]

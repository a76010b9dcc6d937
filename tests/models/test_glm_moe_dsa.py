"""The released models of the family, each from its config.json."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from colibri.container.jsonfile import read_json
from colibri.errors import ConfigError, UnsupportedModelError
from colibri.models import glm_moe_dsa
from colibri.models.glm_config import GlmMoeDsaConfig, parse
from colibri.models.registry import family_for

COMMON: dict[str, Any] = {
    "architectures": ["GlmMoeDsaForCausalLM"],
    "model_type": "glm_moe_dsa",
    "vocab_size": 154880,
    "hidden_size": 6144,
    "intermediate_size": 12288,
    "moe_intermediate_size": 2048,
    "num_hidden_layers": 78,
    "num_attention_heads": 64,
    "num_key_value_heads": 64,
    "q_lora_rank": 2048,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 192,
    "qk_rope_head_dim": 64,
    "v_head_dim": 256,
    "head_dim": 192,
    "first_k_dense_replace": 3,
    "n_routed_experts": 256,
    "num_experts_per_tok": 8,
    "n_shared_experts": 1,
    "n_group": 1,
    "topk_group": 1,
    "routed_scaling_factor": 2.5,
    "norm_topk_prob": True,
    "scoring_func": "sigmoid",
    "topk_method": "noaux_tc",
    "rms_norm_eps": 1e-5,
    "index_topk": 2048,
    "index_n_heads": 32,
    "index_head_dim": 128,
    "num_nextn_predict_layers": 1,
    "rope_parameters": {"rope_type": "default", "rope_theta": 8000000},
    "rope_interleave": True,
    "moe_router_dtype": "float32",
    "attention_bias": False,
    "tie_word_embeddings": False,
    "eos_token_id": [154820, 154827, 154829],
    "pad_token_id": 154820,
}
EVERY_LAYER: dict[str, Any] = {"max_position_embeddings": 202752}
SHARED: dict[str, Any] = {
    "max_position_embeddings": 1048576,
    "index_topk_freq": 4,
    "index_skip_topk_offset": 3,
    "index_share_for_mtp_iteration": True,
    "indexer_rope_interleave": True,
}
FULL_OF_SHARED = [0, 1, *range(2, 78, 4)]
RELEASED = {"GLM-5": EVERY_LAYER, "GLM-5.1": EVERY_LAYER, "GLM-5.2": SHARED, "GLM-5.3": SHARED}
released = pytest.mark.parametrize("model", RELEASED)


def config_of(model: str, folder: Path, **changes: Any) -> GlmMoeDsaConfig:
    (folder / "config.json").write_text(json.dumps(COMMON | RELEASED[model] | changes))
    return parse(read_json(folder / "config.json"))


@released
def test_layers_with_an_indexer(model: str, tmp_path: Path) -> None:
    config = config_of(model, tmp_path)
    full = [layer for layer in range(78) if config.indexed(layer)]
    assert full == (FULL_OF_SHARED if RELEASED[model] is SHARED else [*range(78)])
    assert len(FULL_OF_SHARED) == 21
    assert config.index_interleaved == (RELEASED[model] is SHARED)


@released
def test_weights_are_those_of_the_release(model: str, tmp_path: Path) -> None:
    config = config_of(model, tmp_path)
    weights = family_for(COMMON).weights(config)
    required = weights.required
    indexers = sum(name.endswith("indexer.wk.weight") for name in required)
    assert indexers == sum(config.indexed(layer) for layer in range(78))
    at = "model.layers.77.self_attn."
    assert required[at + "q_b_proj.weight"] == (64 * 256, 2048)
    assert required[at + "kv_a_proj_with_mqa.weight"] == (576, 6144)
    assert required[at + "kv_b_proj.weight"] == (64 * (192 + 256), 512)
    assert required[at + "o_proj.weight"] == (6144, 64 * 256)
    at = "model.layers.1.self_attn.indexer."
    assert required[at + "wq_b.weight"] == (32 * 128, 2048)
    assert required[at + "weights_proj.weight"] == (32, 6144)
    assert sorted(weights.experts) == [*range(3, 79)]
    assert [layer for layer, shape in weights.experts.items() if shape.draft] == [78]
    expert = weights.experts[40]
    assert (expert.num_experts, expert.hidden, expert.inner) == (256, 6144, 2048)
    # 744 billion with the draft layer's experts left out.
    total = sum(math.prod(shape) for shape in required.values())
    total += sum(
        3 * e.num_experts * e.hidden * e.inner for e in weights.experts.values() if not e.draft
    )
    assert total / 1e9 == pytest.approx(744, rel=0.01)


@released
def test_state_of_128k_positions(model: str, tmp_path: Path) -> None:
    """512 + 64 values a position and layer, 128 more with an indexer; nothing per head."""
    config = config_of(model, tmp_path)
    sizes = glm_moe_dsa.sizes(config)
    indexed = 21 if RELEASED[model] is SHARED else 78
    assert sizes.state_bytes == 4 * (78 * 576 + indexed * 128)
    assert sizes.sequence_bytes == 0
    assert sizes.state_bytes * 131072 / 1e9 == pytest.approx(
        24.96 if indexed == 21 else 28.79, abs=0.01
    )


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"index_topk_pattern": "".join("FS"[i not in FULL_OF_SHARED] for i in range(78))},
        {"indexer_types": [["full", "shared"][i not in FULL_OF_SHARED] for i in range(78)]},
    ],
    ids=["by rule", "by pattern", "listed"],
)
def test_three_ways_to_say_which_layers_share(said: dict[str, Any], tmp_path: Path) -> None:
    changes = said and {"index_topk_freq": None, "index_skip_topk_offset": None}
    config = config_of("GLM-5.2", tmp_path, **{**changes, **said})
    assert [layer for layer in range(78) if config.indexed(layer)] == FULL_OF_SHARED


def test_the_rule_without_an_offset_is_the_references(tmp_path: Path) -> None:
    config = config_of("GLM-5.2", tmp_path, index_skip_topk_offset=None)
    assert [layer for layer in range(12) if config.indexed(layer)] == [0, 1, 5, 9]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"index_topk_pattern": "FS"}, "index_topk_pattern"),
        ({"index_topk_pattern": "F" * 77 + "X"}, "index_topk_pattern"),
        ({"index_topk_pattern": "S" * 78}, "layer 0"),
        ({"index_topk_freq": 0}, "index_topk_freq"),
        ({"index_topk": 0}, "index_topk"),
        ({"rope_interleave": False}, "rope_interleave"),
    ],
)
def test_what_cannot_be_is_refused_by_name(
    changes: dict[str, Any], field: str, tmp_path: Path
) -> None:
    with pytest.raises((ConfigError, UnsupportedModelError), match=field):
        config_of("GLM-5.2", tmp_path, **changes)

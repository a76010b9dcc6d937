"""Config values of small models in awkward shapes, drawn from a seed.

Nothing is a round number on purpose: sizes off the packed formats' grid, uneven top-k, a single key
head. Switches alternate with the seed, so that two neighbouring seeds reach both sides of each.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

Config = dict[str, Any]


def _common(r: random.Random) -> Config:
    return {
        "vocab_size": r.choice([97, 131, 203]),
        "max_position_embeddings": 256,
        "rms_norm_eps": r.choice([1e-5, 1e-6]),
        "rope_parameters": {"rope_type": "default", "rope_theta": r.choice([1e4, 1e6])},
        "eos_token_id": 2,
        "pad_token_id": None,
        "bos_token_id": None,
    }


def _experts(r: random.Random) -> tuple[int, int]:
    """Number of experts, chosen a token."""
    return r.choice([(5, 3), (7, 2), (9, 4), (6, 1)])


def _split_heads(r: random.Random) -> Config:
    """Head size derived from the hidden size: hidden = heads x even head size."""
    heads, head_dim = r.choice([(3, 24), (5, 8), (4, 26), (6, 14)])
    kv_heads = r.choice([1, heads])
    return {
        "hidden_size": heads * head_dim,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
    }


def _free_heads(r: random.Random) -> Config:
    """Head size of its own."""
    heads, kv_heads = r.choice([(4, 1), (6, 2), (3, 3), (5, 1)])
    return {
        "hidden_size": r.choice([40, 72, 104]),
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": r.choice([8, 24, 40]),
    }


def _olmoe(r: random.Random, odd: bool) -> Config:
    experts, chosen = _experts(r)
    return {
        **_common(r),
        **_split_heads(r),
        "intermediate_size": r.choice([20, 36, 44]),
        "num_hidden_layers": r.choice([2, 3]),
        "num_experts": experts,
        "num_experts_per_tok": chosen,
        "norm_topk_prob": odd,
        "clip_qkv": 1.5 if odd else None,
        "tie_word_embeddings": not odd,
    }


def _mixtral(r: random.Random, odd: bool) -> Config:
    experts, chosen = _experts(r)
    return {
        **_common(r),
        **_free_heads(r),
        "intermediate_size": r.choice([20, 52, 100]),
        "num_hidden_layers": r.choice([2, 3]),
        "num_local_experts": experts,
        "num_experts_per_tok": chosen,
        "sliding_window": 7 if odd else None,
        "tie_word_embeddings": odd,
    }


def _qwen2_moe(r: random.Random, odd: bool) -> Config:
    experts, chosen = _experts(r)
    return {
        **_common(r),
        **_split_heads(r),
        "intermediate_size": r.choice([50, 90]),
        "moe_intermediate_size": r.choice([20, 36]),
        "shared_expert_intermediate_size": r.choice([28, 60]),
        "num_hidden_layers": 4,
        "num_experts": experts,
        "num_experts_per_tok": chosen,
        "norm_topk_prob": odd,
        "decoder_sparse_step": 2 if odd else 1,
        "mlp_only_layers": [] if odd else [0, 2],
        "qkv_bias": not odd,
        "tie_word_embeddings": odd,
    }


def _yarn(theta: float) -> Config:
    return {
        "rope_type": "yarn",
        "rope_theta": theta,
        "factor": 4.0,
        "original_max_position_embeddings": 64,
    }


def _qwen3_moe(r: random.Random, odd: bool) -> Config:
    experts, chosen = _experts(r)
    common = _common(r)
    if odd:
        common["rope_parameters"] = _yarn(common["rope_parameters"]["rope_theta"])
    return {
        **common,
        **_free_heads(r),
        "intermediate_size": r.choice([50, 90]),
        "moe_intermediate_size": r.choice([20, 36]),
        "num_hidden_layers": 3,
        "num_experts": experts,
        "num_experts_per_tok": chosen,
        "norm_topk_prob": not odd,
        "mlp_only_layers": [1] if odd else [],
        "tie_word_embeddings": odd,
    }


def _qwen3_5_moe(r: random.Random, odd: bool) -> Config:
    """Rope turns a quarter of a head."""
    experts, chosen = _experts(r)
    common = _common(r)
    common["rope_parameters"] |= {"partial_rotary_factor": 0.25}
    key_heads, heads = r.choice([(1, 3), (2, 4), (3, 3)])
    return {
        **common,
        **_free_heads(r),
        "moe_intermediate_size": r.choice([20, 36]),
        "shared_expert_intermediate_size": r.choice([28, 60]),
        "num_hidden_layers": 4,
        "full_attention_interval": 2 if odd else 4,
        "linear_num_key_heads": key_heads,
        "linear_num_value_heads": heads,
        "linear_key_head_dim": r.choice([8, 20]),
        "linear_value_head_dim": r.choice([12, 24]),
        "linear_conv_kernel_dim": 4,
        "num_experts": experts,
        "num_experts_per_tok": chosen,
        "tie_word_embeddings": odd,
    }


def _glm_moe_dsa(r: random.Random, odd: bool) -> Config:
    heads = r.choice([3, 5])
    full, shared = "full", "shared"
    return {
        **_common(r),
        "hidden_size": r.choice([40, 72, 104]),
        "num_attention_heads": heads,
        "num_key_value_heads": heads,
        "intermediate_size": r.choice([50, 90]),
        "moe_intermediate_size": r.choice([20, 36]),
        "num_hidden_layers": 4,
        "first_k_dense_replace": 2 if odd else 0,
        "n_routed_experts": 10,
        "num_experts_per_tok": 3,
        "n_shared_experts": 1,
        "n_group": 2 if odd else 1,
        "topk_group": 1,
        "norm_topk_prob": r.choice([True, False]),
        "routed_scaling_factor": r.choice([1.0, 2.5]),
        "q_lora_rank": r.choice([20, 44]),
        "kv_lora_rank": r.choice([24, 40]),
        "qk_rope_head_dim": r.choice([8, 24]),
        "qk_nope_head_dim": r.choice([12, 20]),
        "v_head_dim": r.choice([20, 28]),
        "index_topk": r.choice([5, 9]),
        "index_head_dim": r.choice([24, 40]),
        # With few heads relu leaves many scores at exactly 0, and ties are not what is tested.
        "index_n_heads": 16,
        "indexer_types": [full, shared, full, shared] if odd else [full, full, shared, shared],
        "indexer_rope_interleave": True,
        "rope_interleave": True,
        "scoring_func": "sigmoid",
        "topk_method": "noaux_tc",
    }


def _glm5_next(r: random.Random, odd: bool) -> Config:
    """With a tower, which is not run. The limit is one that values reach."""
    text = _glm_moe_dsa(r, odd)
    for key in ("rope_parameters", "rope_interleave", "indexer_rope_interleave", "indexer_types"):
        del text[key]
    linear, full = "linear_attention", "indexed_attention"
    pool, topk = r.choice([(4, 8), (3, 6), (2, 4)])
    text |= {
        "qk_rope_head_dim": 0,
        "index_kpool": pool,
        "index_topk": topk,
        "indexer_types": ["full"] * 4,
        "layer_types": [linear, full, linear, full] if odd else [linear, linear, full, linear],
        "mlp_layer_types": ["dense", "dense" if odd else "sparse", "sparse", "sparse"],
        "linear_attn_config": {
            "head_dim": r.choice([12, 20]),
            "num_heads": r.choice([2, 3]),
            "short_conv_kernel_size": 4,
            "gate_lower_bound": r.choice([-5.0, -2.0]),
        },
        "hc_mult": 4 if odd else 3,
        "hc_eps": r.choice([1e-6, 1e-3]),
        "hc_sinkhorn_iters": r.choice([20, 2]),
        "swiglu_limit": r.choice([0.5, 10.0]),
    }
    vision = {
        "depth": 1,
        "hidden_size": 16,
        "num_heads": 2,
        "intermediate_size": 24,
        "out_hidden_size": text["hidden_size"],
        "projection_intermediate_size": 20,
        "image_size": 56,
    }
    return {"text_config": text, "vision_config": vision}


_DRAW: dict[str, Callable[[random.Random, bool], Config]] = {
    "olmoe": _olmoe,
    "mixtral": _mixtral,
    "qwen2_moe": _qwen2_moe,
    "qwen3_moe": _qwen3_moe,
    "qwen3_5_moe": _qwen3_5_moe,
    "glm_moe_dsa": _glm_moe_dsa,
    "glm5_next": _glm5_next,
}
FAMILIES = tuple(_DRAW)


def draw(family: str, seed: int) -> Config:
    """Arguments for the family's transformers config class."""
    return _DRAW[family](random.Random(f"{family}-{seed}"), bool(seed % 2))


def vocabulary(config: Config) -> int:
    return int(config.get("text_config", config)["vocab_size"])


def released_style(config: Config) -> Config:
    """The same values as released files spell them: rope_theta and rope_scaling, flat; other names
    of layer types."""
    if "text_config" in config:
        text = dict(config["text_config"])
        names = {"indexed_attention": "full_attention"}
        text["layer_types"] = [names.get(kind, kind) for kind in text["layer_types"]]
        return config | {"text_config": text}
    rope = dict(config["rope_parameters"])
    old = {k: v for k, v in config.items() if k != "rope_parameters"}
    old["rope_theta"] = rope.pop("rope_theta")
    if "partial_rotary_factor" in rope:
        old["partial_rotary_factor"] = rope.pop("partial_rotary_factor")
    old["rope_scaling"] = None if rope["rope_type"] == "default" else rope
    return old

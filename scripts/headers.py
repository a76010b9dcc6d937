"""The headers of GLM-5.3-Flash's BF16 release, without its 600 GB: `python -m scripts.headers DIR`.

Writes config.json, the index and shards that end behind their header, for planning. Names and
shapes are written out from the published sizes, not taken from the family's own declaration, which
is tested against them.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TEXT: dict[str, Any] = {
    "model_type": "glm5_next_text",
    "vocab_size": 154880,
    "hidden_size": 4096,
    "intermediate_size": 12288,
    "moe_intermediate_size": 2048,
    "num_hidden_layers": 45,
    "num_attention_heads": 64,
    "q_lora_rank": 1536,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 256,
    "qk_rope_head_dim": 0,
    "v_head_dim": 256,
    "mla_use_nope": True,
    "n_routed_experts": 288,
    "num_experts_per_tok": 8,
    "n_shared_experts": 1,
    "first_k_dense_replace": 3,
    "n_group": 1,
    "topk_group": 1,
    "routed_scaling_factor": 2.5,
    "norm_topk_prob": True,
    "rms_norm_eps": 1e-5,
    "swiglu_limit": 10.0,
    "hc_mult": 4,
    "hc_eps": 1e-6,
    "hc_sinkhorn_iters": 20,
    "index_topk": 2048,
    "index_n_heads": 32,
    "index_head_dim": 128,
    "index_kpool": 4,
    "index_kpool_compress": True,
    "index_kpool_always_select_tail": True,
    "indexer_types": ["full"] * 45,
    "num_nextn_predict_layers": 1,
    "max_position_embeddings": 1048576,
    "layer_types": ["full_attention" if i % 4 == 3 else "linear_attention" for i in range(45)],
    "linear_attn_config": {
        "num_heads": 64,
        "head_dim": 128,
        "short_conv_kernel_size": 4,
        "gate_lower_bound": -5.0,
        "safe_gate": True,
        "kda_layers": [i for i in range(45) if i % 4 != 3],
    },
}
CONFIG: dict[str, Any] = {
    "model_type": "glm5_next",
    "architectures": ["Glm5NextForConditionalGeneration"],
    "dtype": "bfloat16",
    "tie_word_embeddings": False,
    "text_config": TEXT,
}
Tensor = tuple[str, str, tuple[int, ...]]  # name, dtype, shape


def layer(i: int) -> Iterator[Tensor]:
    """Layer 45 is the draft layer."""
    at = f"model.language_model.layers.{i}."
    yield at + "input_layernorm.weight", "BF16", (4096,)
    yield at + "post_attention_layernorm.weight", "BF16", (4096,)
    if i < 45:
        for part in ("attn", "ffn"):
            yield f"{at}hc_{part}_fn", "F32", (24, 16384)
            yield f"{at}hc_{part}_base", "F32", (24,)
            yield f"{at}hc_{part}_scale", "F32", (3,)
    else:
        for norm in ("enorm", "hnorm", "shared_head.norm"):
            yield f"{at}{norm}.weight", "BF16", (4096,)
        yield at + "eh_proj.weight", "BF16", (4096, 8192)
    yield from linear_attention(at) if i % 4 != 3 and i < 45 else full_attention(at)
    yield from experts(at) if i >= 3 else swiglu(at + "mlp.", 12288)


def linear_attention(at: str) -> Iterator[Tensor]:
    for part in "qkv":
        yield f"{at}self_attn.{part}_proj.weight", "BF16", (8192, 4096)
        yield f"{at}self_attn.{part}_conv1d.weight", "BF16", (8192, 1, 4)
    for gate in "fg":
        yield f"{at}self_attn.{gate}_a_proj.weight", "BF16", (128, 4096)
        yield f"{at}self_attn.{gate}_b_proj.weight", "BF16", (8192, 128)
    yield at + "self_attn.b_proj.weight", "BF16", (64, 4096)
    yield at + "self_attn.A_log", "F32", (64,)
    yield at + "self_attn.dt_bias", "F32", (8192,)
    yield at + "self_attn.o_norm.weight", "BF16", (128,)
    yield at + "self_attn.o_proj.weight", "BF16", (4096, 8192)


def full_attention(at: str) -> Iterator[Tensor]:
    shapes: dict[str, tuple[int, ...]] = {
        "q_a_proj.weight": (1536, 4096),
        "q_a_layernorm.weight": (1536,),
        "q_b_proj.weight": (64 * 256, 1536),
        "kv_a_proj_with_mqa.weight": (512, 4096),
        "kv_a_layernorm.weight": (512,),
        "kv_b_proj.weight": (64 * 512, 512),
        "o_proj.weight": (4096, 64 * 256),
        "indexer.wq_b.weight": (4096, 1536),
        "indexer.wk.weight": (128, 4096),
        "indexer.k_norm.weight": (128,),
        "indexer.k_norm.bias": (128,),
        "indexer.weights_proj.weight": (32, 4096),
        "indexer.index_kpool_compress_gate": (128, 4096),
        "indexer.index_kpool_compress_ape": (4, 128),
    }
    for name, shape in shapes.items():
        yield f"{at}self_attn.{name}", "BF16", shape


def experts(at: str) -> Iterator[Tensor]:
    yield at + "mlp.gate.weight", "BF16", (288, 4096)
    yield at + "mlp.gate.e_score_correction_bias", "F32", (288,)
    yield from swiglu(at + "mlp.shared_experts.", 2048)
    for expert in range(288):
        yield from swiglu(f"{at}mlp.experts.{expert}.", 2048)


def swiglu(at: str, inner: int) -> Iterator[Tensor]:
    yield at + "gate_proj.weight", "BF16", (inner, 4096)
    yield at + "up_proj.weight", "BF16", (inner, 4096)
    yield at + "down_proj.weight", "BF16", (4096, inner)


def outer() -> Iterator[Tensor]:
    yield "model.language_model.embed_tokens.weight", "BF16", (154880, 4096)
    yield "model.language_model.norm.weight", "BF16", (4096,)
    yield "lm_head.weight", "BF16", (154880, 4096)
    yield "model.visual.patch_embed.proj.weight", "BF16", (1024, 3, 2, 14, 14)
    yield "model.visual.post_layernorm.weight", "BF16", (1024,)


def header(tensors: Iterator[Tensor]) -> dict[str, Any]:
    """The entries of a safetensors header, one tensor after the other."""
    entries, end = {}, 0
    for name, dtype, shape in tensors:
        begin, end = end, end + math.prod(shape) * (4 if dtype == "F32" else 2)
        entries[name] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}
    return entries


def write(directory: Path, *, shards: bool = True) -> None:
    """Without `shards` the config and the index only."""
    headers = [header(outer()), *(header(layer(i)) for i in range(46))]
    files = [f"model-{i + 1:05}-of-{len(headers):05}.safetensors" for i in range(len(headers))]
    index = {name: file for file, h in zip(files, headers, strict=True) for name in h}
    (directory / "config.json").write_text(json.dumps(CONFIG))
    (directory / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
    for file, entries in zip(files, headers, strict=True):
        data = json.dumps(entries).encode()
        if shards:
            (directory / file).write_bytes(len(data).to_bytes(8, "little") + data)


if __name__ == "__main__":
    Path(sys.argv[1]).mkdir(parents=True, exist_ok=True)
    write(Path(sys.argv[1]))

"""A checkpoint larger than it looks: its file is a hole, so every weight is zero and no disk is
used. Routing of zeros is the same for all tokens, so scripts that need misses route at random."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from colibri.models.registry import family_for

CONFIG: dict[str, Any] = {
    "model_type": "qwen3_moe",
    "vocab_size": 128,
    "hidden_size": 512,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "num_experts": 64,
    "num_experts_per_tok": 4,
    "moe_intermediate_size": 1024,
    "intermediate_size": 1024,
    "norm_topk_prob": True,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "max_position_embeddings": 4096,
}


def sparse_model(folder: Path) -> Path:
    """805 MB of experts in bf16."""
    weights = family_for(CONFIG).weights_of(CONFIG)
    shapes = dict(weights.required)
    for layer, shape in weights.experts.items():
        for expert in range(shape.num_experts):
            at = f"model.layers.{layer}.mlp.experts.{expert}."
            shapes[at + "gate_proj.weight"] = shapes[at + "up_proj.weight"] = (
                shape.inner,
                shape.hidden,
            )
            shapes[at + "down_proj.weight"] = (shape.hidden, shape.inner)
    entries, end = {}, 0
    for name, dims in shapes.items():
        begin, end = end, end + 2 * math.prod(dims)
        entries[name] = {"dtype": "BF16", "shape": dims, "data_offsets": [begin, end]}
    header = json.dumps(entries).encode()
    with (folder / "model.safetensors").open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + end)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    return folder

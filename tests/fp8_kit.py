"""Checkpoints whose matrices are wider than a block of scales, in the tiny families' shapes."""

import json
from pathlib import Path
from typing import Any

import numpy as np

import golden
from colibri.container.weights import ExpertShape
from colibri.models.registry import family_for
from scripts import fp8

# More than one block either way, and never a whole number of them.
WIDE: dict[str, dict[str, int]] = {
    "qwen3_moe": {"hidden_size": 264, "moe_intermediate_size": 136, "num_hidden_layers": 2},
    "glm_moe_dsa": {
        "hidden_size": 144,
        "moe_intermediate_size": 168,
        "num_hidden_layers": 3,
        "q_lora_rank": 136,
    },
}
_SHORTER = ("indexer_types", "layer_types", "mlp_layer_types")


def wide(family: str, target: Path) -> Path:
    """A random float32 checkpoint."""
    target.mkdir()
    config = json.loads((golden.tiny(family) / "config.json").read_text()) | WIDE[family]
    for key in _SHORTER:
        if key in config:
            config[key] = config[key][: config["num_hidden_layers"]]
    (target / "config.json").write_text(json.dumps(config))
    weights = family_for(config).weights_of(config)
    rng = np.random.default_rng(5)

    def draw(*shape: int) -> Any:
        spread = shape[-1] ** -0.5 if len(shape) > 1 else 0.1
        values = rng.standard_normal(shape).astype(np.float32) * np.float32(spread)
        return values if len(shape) > 1 else values + np.float32(1)

    tensors = {name: draw(*shape) for name, shape in weights.required.items()}
    for layer, shape in weights.experts.items():
        tensors |= _experts(f"model.layers.{layer}.mlp.experts", shape, draw)
    fp8.write_shards(target, tensors, 1)
    return target


def _experts(prefix: str, shape: ExpertShape, draw: Any) -> dict[str, Any]:
    found = {}
    for expert in range(shape.num_experts):
        for part in ("gate", "up", "down"):
            rows, cols = shape.inner, shape.hidden
            size = (cols, rows) if part == "down" else (rows, cols)
            found[f"{prefix}.{expert}.{part}_proj.weight"] = draw(*size)
    return found

"""Tiny random checkpoints of every family with the logits of transformers (tests/fixtures/tiny).

A reference directory holds config.json, model.safetensors, ref.json (token ids) and logits.npz;
scripts/oracle writes fresh ones in the same shape.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scripts.oracle.reference import Reference, read

FAMILIES = (
    "olmoe",
    "mixtral",
    "qwen2_moe",
    "qwen3_moe",
    "qwen3_5_moe",
    "glm_moe_dsa",
    "glm5_next",
)
_TINY = Path(__file__).parent / "fixtures" / "tiny"


def tiny(family: str) -> Path:
    """The directory of a family's checkpoint; read-only, copy it before changing anything."""
    return _TINY / family


def text_config(family: str) -> dict[str, Any]:
    """What config.json says of the text model, which may be a part of it."""
    config: dict[str, Any] = json.loads((tiny(family) / "config.json").read_text("utf-8"))
    text: dict[str, Any] = config.get("text_config", config)
    return text


def reference(family: str) -> Reference:
    """The reference of a committed fixture."""
    return read(tiny(family))


def cast_logits(family: str) -> NDArray[np.float32]:
    """transformers' logits [prompt, vocab] of a committed fixture's weights rounded to bf16."""
    with np.load(tiny(family) / "logits.npz") as logits:
        rounded: NDArray[np.float32] = logits["cast_logits"]
        return rounded


def cosine(a: NDArray[np.float32], b: NDArray[np.float32]) -> float:
    """Of two whole matrices, summed in double."""
    x, y = a.astype(np.float64).ravel(), b.astype(np.float64).ravel()
    return float(x @ y / np.sqrt((x @ x) * (y @ y)))

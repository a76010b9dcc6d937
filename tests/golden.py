"""Tiny random checkpoints of every family with the logits of transformers (tests/fixtures/tiny).

A reference directory holds config.json, model.safetensors, ref.json (token ids) and logits.npz;
scripts/oracle writes fresh ones in the same shape.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

FAMILIES = ("olmoe", "mixtral", "qwen2_moe", "qwen3_moe", "glm_moe_dsa")
_TINY = Path(__file__).parent / "fixtures" / "tiny"


@dataclass(frozen=True)
class Ref:
    """What transformers answered, in fp32."""

    prompt_ids: list[int]
    greedy_ids: list[int]
    prompt_logits: NDArray[np.float32]  # [prompt, vocab]
    last_logits: NDArray[np.float32]  # [vocab], after prompt + all greedy ids


def tiny(family: str) -> Path:
    """The directory of a family's checkpoint; read-only, copy it before changing anything."""
    return _TINY / family


def load_reference(directory: Path) -> Ref:
    """The reference stored beside the checkpoint in `directory`."""
    ids = json.loads((directory / "ref.json").read_text(encoding="utf-8"))
    with np.load(directory / "logits.npz") as logits:
        return Ref(
            prompt_ids=ids["prompt_ids"],
            greedy_ids=ids["greedy_ids"],
            prompt_logits=logits["prompt_logits"],
            last_logits=logits["last_logits"],
        )


def reference(family: str) -> Ref:
    """The reference of a committed fixture."""
    return load_reference(tiny(family))


def cast_logits(family: str) -> NDArray[np.float32]:
    """transformers' logits [prompt, vocab] of a committed fixture's weights rounded to bf16."""
    with np.load(tiny(family) / "logits.npz") as logits:
        rounded: NDArray[np.float32] = logits["cast_logits"]
        return rounded


def cosine(a: NDArray[np.float32], b: NDArray[np.float32]) -> float:
    """Of two whole matrices, summed in double."""
    x, y = a.astype(np.float64).ravel(), b.astype(np.float64).ravel()
    return float(x @ y / np.sqrt((x @ x) * (y @ y)))

"""What lies beside an oracle checkpoint: token ids in ref.json, fp32 logits in logits.npz."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Reference:
    prompt_ids: list[int]
    greedy_ids: list[int]
    prompt_logits: NDArray[np.float32]  # [prompt, vocab]
    last_logits: NDArray[np.float32]  # [vocab], after prompt + all greedy ids


def write(directory: Path, ref: Reference) -> None:
    ids = {"prompt_ids": ref.prompt_ids, "greedy_ids": ref.greedy_ids}
    (directory / "ref.json").write_text(json.dumps(ids) + "\n", encoding="utf-8")
    np.savez(directory / "logits.npz", prompt_logits=ref.prompt_logits, last_logits=ref.last_logits)


def read(directory: Path) -> Reference:
    ids = json.loads((directory / "ref.json").read_text(encoding="utf-8"))
    with np.load(directory / "logits.npz") as logits:
        return Reference(
            prompt_ids=ids["prompt_ids"],
            greedy_ids=ids["greedy_ids"],
            prompt_logits=logits["prompt_logits"],
            last_logits=logits["last_logits"],
        )

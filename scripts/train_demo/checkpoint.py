"""The trainer's own checkpoint: shape, weights, optimiser, how far it came."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from scripts.train_demo.model import Model
from scripts.train_demo.shape import Shape


@dataclass
class Progress:
    phase: str = "trunk"  # the optimiser belongs to it: "trunk" or "mtp"
    tokens: dict[str, int] = field(default_factory=lambda: {"trunk": 0, "mtp": 0})


@dataclass
class Checkpoint:
    model: Model
    progress: Progress
    optimizer: dict[str, Any] | None


def save(path: Path, checkpoint: Checkpoint) -> None:
    """Replaces `path` in one step: a stop half-way leaves the old file."""
    content = {
        "shape": asdict(checkpoint.model.shape),
        "model": checkpoint.model.state_dict(),
        "progress": asdict(checkpoint.progress),
        "optimizer": checkpoint.optimizer,
    }
    temporary = path.with_suffix(".tmp")
    with temporary.open("wb") as file:
        torch.save(content, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


def load(path: Path) -> Checkpoint:
    if not path.exists():
        raise SystemExit(f"{path}: no checkpoint; run the train step first")
    content = torch.load(path, weights_only=True, map_location="cpu")
    model = Model(Shape(**content["shape"]))
    model.load_state_dict(content["model"])
    return Checkpoint(model, Progress(**content["progress"]), content["optimizer"])

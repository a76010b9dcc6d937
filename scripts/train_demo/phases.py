"""The two phases of training: the trunk, then the MTP block on the frozen trunk."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from scripts.train_demo.data import Batch
from scripts.train_demo.losses import mtp_loss, trunk_loss
from scripts.train_demo.model import Model
from scripts.train_demo.moe import Router


@dataclass(frozen=True)
class Settings:
    tokens: int = 16_000_000  # 70 minutes on two cores
    mtp_tokens: int = 2_500_000
    lr: float = 2e-3
    mtp_lr: float = 1.5e-3
    context: int = 256
    batch: int = 8
    workers: int = 2
    seed: int = 0


@dataclass(frozen=True)
class Phase:
    name: str
    total: int  # tokens
    lr: float
    warmup: int  # steps
    decay: float  # the last part of the phase over which the rate falls
    loss: Callable[[Model, Batch], torch.Tensor]

    def rate(self, done: float, step: int) -> float:
        """Learning rate after the fraction `done` of the phase: up, flat, linearly down."""
        falling = max(0.02, min(1.0, (1 - done) / self.decay))
        return self.lr * min(1.0, (step + 1) / self.warmup) * falling

    def window(self, settings: Settings, done: float) -> tuple[int, int]:
        """(batch, context): the trunk's last tenth sees three times the context."""
        if self.name == "trunk" and done >= 0.9:
            return max(1, settings.batch // 3), settings.context * 3
        return settings.batch, settings.context

    def balance_rate(self, done: float) -> float:
        return 0.004 if self.name == "trunk" and done < 0.85 else 0.001

    def parameters(self, model: Model) -> list[torch.nn.Parameter]:
        mtp = self.name == "mtp"
        return [p for n, p in model.named_parameters() if n.startswith("mtp.") == mtp]

    def routers(self, model: Model) -> list[Router]:
        part = model.mtp if self.name == "mtp" else model.layers
        return [m for m in part.modules() if isinstance(m, Router)]


def phases(settings: Settings) -> list[Phase]:
    return [
        Phase("trunk", settings.tokens, settings.lr, 150, 0.15, trunk_loss),
        Phase("mtp", settings.mtp_tokens, settings.mtp_lr, 40, 0.5, mtp_loss),
    ]


def optimizer(phase: Phase, model: Model) -> torch.optim.AdamW:
    """Decay on matrices only."""
    parameters = phase.parameters(model)
    groups = [
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": 0.05},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=phase.lr, betas=(0.9, 0.98), fused=True)

"""What is minimised, and what is measured on validation text."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from scripts.train_demo.data import AHEAD, Batch, TokenData
from scripts.train_demo.model import Model
from scripts.train_demo.tokens import CHAT


def _loss(
    model: Model, states: torch.Tensor, targets: torch.Tensor, counts: torch.Tensor
) -> torch.Tensor:
    """Mean cross-entropy over the tokens that count."""
    at = counts.flatten().nonzero().squeeze(1)
    logits = model.lm_head(states.flatten(0, 1).index_select(0, at))
    # A window without a counting token gives 0, not NaN.
    total = F.cross_entropy(logits, targets.flatten().index_select(0, at), reduction="sum")
    return total / max(1, at.numel())


def trunk_loss(model: Model, batch: Batch) -> torch.Tensor:
    states = model.states(batch.ids[:, :-AHEAD])
    return _loss(model, states, batch.ids[:, 1:-1], batch.counts[:, 1:-1])


def mtp_loss(model: Model, batch: Batch) -> torch.Tensor:
    """Loss of the draft on the token after next; the trunk stands still."""
    ids = batch.ids[:, :-AHEAD]
    with torch.no_grad():
        states = model.states(ids)
    drafted = model.draft_states(ids, states)
    return _loss(model, drafted, batch.ids[:, 2:-1], batch.counts[:, 2:-1])


@torch.no_grad()
def validation(model: Model, data: TokenData, context: int) -> dict[str, float]:
    """Loss in nats a token, by domain; for chat over what the assistant says."""
    losses = {d: float(trunk_loss(model, data.batch(8, context, d))) for d in data.ids}
    return {domain: round(loss, 3) for domain, loss in losses.items()}


@torch.no_grad()
def agreement(model: Model, data: TokenData, context: int, batches: int = 4) -> float:
    """How often the draft's first choice is the trunk's own, over the assistant's tokens."""
    same = total = 0
    for _ in range(batches):
        batch = data.batch(8, context, CHAT)
        ids, counts = batch.ids[:, :-AHEAD], batch.counts[:, 2:-1]
        states = model.states(ids)
        wanted = model.lm_head(states[:, 1:]).argmax(-1)
        drafted = model.lm_head(model.draft_states(ids, states)).argmax(-1)
        same += int(((wanted == drafted) & counts).sum())
        total += int(counts.sum())
    return round(same / max(1, total), 4)

"""Batches of token windows, and which tokens count as targets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from scripts.train_demo.template import END, SPECIAL_TOKENS, token_id
from scripts.train_demo.tokens import CHAT

CHAT_SHARE = 0.6
# In training a few of the user's tokens count too: the model must read them as language.
_USER_SHARE = 0.08
AHEAD = 2  # tokens after the context: the next one, and the one the MTP block predicts


@dataclass(frozen=True)
class Batch:
    ids: torch.Tensor  # [batch, context + AHEAD]
    counts: torch.Tensor  # bool, same shape


def _spoken(ids: NDArray[np.uint16]) -> NDArray[np.bool_]:
    """True where a token belongs to the assistant: the last role token before it says so."""
    roles = [token_id(t) for t in SPECIAL_TOKENS if t.startswith("<|")]
    marks = np.where(np.isin(ids, roles), np.arange(ids.size), 0)
    last = np.maximum.accumulate(marks)
    spoken = np.zeros(ids.size, np.bool_)
    spoken[1:] = ids[last[:-1]] == token_id("<|assistant|>")
    return spoken


class TokenData:
    """The files of one split; chat windows begin where a conversation begins."""

    def __init__(self, directory: Path, split: str, seed: Sequence[int]) -> None:
        self._random = np.random.default_rng(seed)
        self._noise = _USER_SHARE if split == "train" else 0.0
        files = sorted(directory.glob(f"*.{split}.bin"))
        self.ids = {p.name.split(".")[0]: np.fromfile(p, np.uint16) for p in files}
        if CHAT not in self.ids:
            raise SystemExit(f"{directory}: no tokens; run the encode step first")
        self._spoken = _spoken(self.ids[CHAT])
        ends = np.flatnonzero(self.ids[CHAT] == token_id(END)) + 1
        self._starts = np.concatenate([[0], ends[:-1]])
        sizes = {k: v.size**0.5 for k, v in self.ids.items() if k != CHAT}
        total = sum(sizes.values())
        self._shares = {k: (1 - CHAT_SHARE) * s / total for k, s in sizes.items()}
        self._shares[CHAT] = 1 - sum(self._shares.values())

    def _window(self, domain: str, length: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        ids = self.ids[domain]
        free = max(1, ids.size - length + 1)
        start = int(self._random.integers(free))
        if domain == CHAT:
            start = min(int(self._random.choice(self._starts)), free - 1)
        # A file shorter than the window repeats.
        at = np.arange(start, start + length) % ids.size
        if domain != CHAT:
            return ids[at].astype(np.int64), np.ones(length, np.bool_)
        return ids[at].astype(np.int64), self._spoken[at] | (
            self._random.random(length) < self._noise
        )

    def batch(self, size: int, context: int, domain: str | None = None) -> Batch:
        """`domain` alone, or the training mixture."""
        names, shares = list(self._shares), list(self._shares.values())
        chosen = self._random.choice(names, size, p=shares) if domain is None else [domain] * size
        windows = [self._window(str(d), context + AHEAD) for d in chosen]
        ids, counts = (np.stack(part) for part in zip(*windows, strict=True))
        return Batch(torch.from_numpy(ids), torch.from_numpy(counts))

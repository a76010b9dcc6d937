"""Greedy answers of a model that is being trained."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import torch
from tokenizers import Tokenizer

from scripts.train_demo.model import Cache, Model
from scripts.train_demo.template import STOP_TOKENS, token_id

_BATCH = 32


@torch.no_grad()
def _greedy(model: Model, prompts: list[list[int]], limit: int) -> list[list[int]]:
    """Prompts of one length together; each answer ends before its stop token."""
    stops = {token_id(t) for t in STOP_TOKENS}
    caches = [Cache() for _ in model.layers]
    answers: list[list[int]] = [[] for _ in prompts]
    going = set(range(len(prompts)))
    feed = torch.tensor(prompts)
    for _ in range(limit):
        chosen = model.lm_head(model.states(feed, caches)[:, -1]).argmax(-1)
        for i, token in enumerate(chosen.tolist()):
            if token in stops:
                going.discard(i)
            elif i in going:
                answers[i].append(token)
        if not going:
            break
        feed = chosen[:, None]
    return answers


def answers(
    model: Model, tokenizer: Tokenizer, prompts: Sequence[str], limit: int = 200
) -> list[str]:
    """Rendered prompts in, the assistant's text out, in the same order."""
    encoded = [e.ids for e in tokenizer.encode_batch(list(prompts), add_special_tokens=False)]
    by_length: dict[int, list[int]] = defaultdict(list)
    for i, ids in enumerate(encoded):
        by_length[len(ids)].append(i)
    out = [""] * len(encoded)
    for group in by_length.values():
        for start in range(0, len(group), _BATCH):
            part = group[start : start + _BATCH]
            decoded = _greedy(model.eval(), [encoded[i] for i in part], limit)
            for i, ids in zip(part, decoded, strict=True):
                out[i] = tokenizer.decode(ids, skip_special_tokens=False)
    return out

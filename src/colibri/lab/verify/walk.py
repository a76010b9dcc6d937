"""How far the answers of two models lie apart, on the same prompts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colibri.container.reader import Container
from colibri.lab.verify.cosine import likeness
from colibri.lab.verify.side import Side

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
# From what is done now and how many steps it has: what to call after each.
Steps = Callable[[str, int], Callable[[], None]]
TOP = 5


@dataclass(frozen=True)
class Agreement:
    """Of the next-token distributions at every position of the prompts."""

    positions: int
    top1: float  # share of positions with the same likeliest token
    top5: float  # mean share of the five likeliest that both have
    kl_mean: float  # KL(source || converted), nats
    kl_largest: float
    hidden_cosines: list[float]  # of the residual stream after each layer


def walk(
    source: Container,
    converted: Container,
    prompts: Sequence[Sequence[int]],
    steps: Steps = lambda what, total: lambda: None,
) -> Agreement:
    """Raises what reading raises. In memory: a layer of each, and all hidden states and logits."""
    a, b = Side(source, prompts), Side(converted, prompts)
    layers = a.config.num_hidden_layers
    try:
        cosines, step = [], steps("walking the layers", layers)
        for layer in range(layers):
            a.advance(layer)
            b.advance(layer)
            cosines.append(likeness(a.hidden, b.hidden).cosine)
            step()
        step = steps("computing the answers", a.vocabulary_pieces + b.vocabulary_pieces)
        p, q = a.logits(step), b.logits(step)
        return agreement(p, q, cosines, steps("comparing the answers", len(p)))
    finally:
        a.close()
        b.close()


def agreement(
    p: F32, q: F32, hidden_cosines: list[float], step: Callable[[], None] = lambda: None
) -> Agreement:
    """Of logits [positions, vocabulary] of the source and of the converted model."""
    top = min(TOP, p.shape[1])
    both, same, divergences = 0, 0, []
    for x, y in zip(p, q, strict=True):
        first, second = _likeliest(x, top), _likeliest(y, top)
        both += len(set(first) & set(second))
        same += int(first[0] == second[0])
        divergences.append(kl(x, y))
        step()
    return Agreement(
        positions=len(p),
        top1=same / len(p),
        top5=both / (top * len(p)),
        kl_mean=float(np.mean(divergences)),
        kl_largest=float(np.max(divergences)),
        hidden_cosines=hidden_cosines,
    )


def kl(x: F32, y: F32) -> float:
    """KL(softmax x || softmax y) in nats; rounding below zero is zero."""
    p, q = _log_softmax(x), _log_softmax(y)
    return max(0.0, float(np.sum(np.exp(p) * (p - q))))


def _log_softmax(x: F32) -> F64:
    shifted = x.astype(np.float64) - float(x.max())
    result: F64 = shifted - np.log(np.exp(shifted).sum())
    return result


def _likeliest(x: F32, count: int) -> list[int]:
    """Best first; of equals the lower id."""
    return [int(i) for i in np.argsort(-x, kind="stable")[:count]]

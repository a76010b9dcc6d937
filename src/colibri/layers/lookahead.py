"""Guesses the experts of the next layers, so that they can be read while this one is computed.

The guess: the later layer's post-attention norm and router, applied to the residual stream after
this layer's attention and shared expert. Only reads and evictions follow from it, no result does.
While decoding, every guessed expert is read. In a prompt only those that enough rows vote for, in
ascending id as the walk wants them, so that hardly a byte is read in vain.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from colibri.experts.base import ExpertExecutor, Guesses
from colibri.layers.decoder import Decoder
from colibri.layers.moe import MoE
from colibri.layers.norm import RMSNorm
from colibri.layers.step import Step
from colibri.layers.trial import Trial, Way

F32 = NDArray[np.float32]
I32 = NDArray[np.int32]
Setting = Literal["auto", "off"] | int

SAMPLE_ROWS = 256  # of a prompt's chunk: bounds what a guess costs
CERTAIN_VOTES = 4  # of these rows; a vote alone is right about two times in three
PROMPT_PRECISION = 0.98  # below it, prompts are not read ahead for
PROMPT_WINDOW = 64  # guesses to judge by


@dataclass(frozen=True)
class Target:
    """A later layer, as far as a guess needs it."""

    norm: RMSNorm
    moe: MoE

    def guess(self, state: F32) -> I32:  # [rows, hidden] -> [rows, k]
        return self.moe.router.route(self.moe.gate(self.norm(state)))[0]


class Lookahead:
    """Whether and how far to look ahead, step by step. For the thread that runs the model.

    depth: layers, or None to look one layer ahead where it is measured to pay.
    """

    def __init__(
        self,
        experts: ExpertExecutor,
        depth: int | None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._experts = experts
        self._depth = depth
        self._clock = clock
        self._trial = Trial()
        self._prompts = PromptPrecision()
        self._way: Way = "idle"
        self._decoding = True

    @contextmanager
    def step(self, step: Step) -> Iterator[None]:
        """Around a walk through all layers."""
        rows = len(step.token_ids)
        self._decoding = rows == len(step.sequences)
        self._way = self._choose_way()
        before, begin = self._experts.guesses, self._clock()
        try:
            yield
        finally:
            self._experts.expire()
        seconds, guesses = self._clock() - begin, self._experts.guesses - before
        if not self._decoding:
            self._prompts.add(guesses)
        elif self._depth is None:
            self._trial.add(rows, seconds, guesses)

    def guess(self, targets: Sequence[Target], x: F32, shared: F32 | None) -> None:
        """x: the residual stream after attention; shared: what the shared expert adds to it."""
        if self._way == "idle":
            return
        depth = self._depth if self._depth is not None and self._decoding else 1
        wanted = [t for t in targets[:depth] if not self._experts.complete(t.moe.layer)]
        if not wanted:
            return
        sample = slice(None, None, -(-len(x) // SAMPLE_ROWS))
        state = x[sample] if shared is None else x[sample] + shared[sample]
        for target in wanted:
            self._hint(target, np.ascontiguousarray(state))

    def _hint(self, target: Target, state: F32) -> None:
        try:
            topk_ids = target.guess(state)
        except ValueError:
            # The router's word for values that are not finite. If the real ones are not, it will
            # say so again.
            return
        self._experts.hint(target.moe.layer, self._chosen(topk_ids), read=self._way == "read")

    def _chosen(self, topk_ids: I32) -> list[int]:
        if len(topk_ids) == 1:
            return [int(expert) for expert in topk_ids[0]]  # best first
        votes = np.bincount(topk_ids.ravel())
        if self._decoding:
            order = np.argsort(-votes, kind="stable")
            return [int(expert) for expert in order[: np.count_nonzero(votes)]]
        return [int(expert) for expert in np.flatnonzero(votes >= CERTAIN_VOTES)]

    def _choose_way(self) -> Way:
        if not self._decoding:
            return self._prompts.way
        return self._trial.way if self._depth is None else "read"


class PromptPrecision:
    """Prompts are read ahead for while nearly all guesses are right; otherwise they are watched."""

    def __init__(self) -> None:
        self.way: Way = "read"
        self._guesses = Guesses()

    def add(self, guesses: Guesses) -> None:
        self._guesses += guesses
        if self._guesses.guessed >= PROMPT_WINDOW:
            self.way = "read" if self._guesses.precision >= PROMPT_PRECISION else "watch"
            self._guesses = Guesses()


def with_lookahead(decoder: Decoder, experts: ExpertExecutor, setting: Setting) -> Decoder:
    """The decoder, looking ahead as the setting says: "off", "auto" or a number of layers."""
    if setting == "off":
        return decoder
    lookahead = Lookahead(experts, setting if isinstance(setting, int) else None)
    targets: list[Target] = []  # of the layers after the one in hand
    layers = []
    for layer in reversed(decoder.layers):
        if isinstance(layer.mlp, MoE):
            later = tuple(targets)
            targets.insert(0, Target(layer.post_norm, layer.mlp))
            layer = replace(layer, guess=partial(lookahead.guess, later)) if later else layer
        layers.append(layer)
    return replace(decoder, layers=layers[::-1], lookahead=lookahead)

"""Guesses the experts of the next layers, so that they can be read while this one is computed.

The guess: the later layer's post-attention norm and router, applied to the residual stream after
this layer's attention and shared expert. Only reads and evictions follow from it, no result does.
While decoding, the experts of the ranks that are mostly guessed right are read. In a prompt those
that enough rows vote for, in ascending id as the walk wants them, so that hardly a byte is read in
vain.
"""

import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from colibri.experts.base import ExpertExecutor, Guess, Guesses
from colibri.layers.confidence import Ranks, Votes
from colibri.layers.decoder import Decoder
from colibri.layers.moe import MoE
from colibri.layers.step import Step
from colibri.layers.trial import Trial, Way

F32 = NDArray[np.float32]
I32 = NDArray[np.int32]
Setting = Literal["auto", "off"] | int

SAMPLE_ROWS = 512  # of a prompt's chunk: bounds what a guess costs


@dataclass(frozen=True)
class Target:
    """A later layer, as far as a guess needs it."""

    read: Callable[[F32], F32]  # the residual as its router would see it
    moe: MoE

    def guess(self, state: F32) -> I32:  # of rows of the residual: [rows, k], best first
        return self.moe.router.guess(self.moe.gate(self.read(state)))


@dataclass(frozen=True)
class Hinted:
    """A guess made while decoding: how many layers ahead, how much of it was to be read."""

    ranks: Ranks
    ranked: Sequence[int]  # of each expert hinted
    trusted: int
    guess: Guess

    def counts(self) -> Guesses:
        """As far as it was to be read."""
        places = self.guess.absent
        right = sum(self.ranked[places[e]] < self.trusted for e in self.guess.right)
        guessed = sum(self.ranked[place] < self.trusted for place in places.values())
        return Guesses(self.guess.missing or 0, guessed, right)


class Lookahead:
    """Whether and how far to look ahead, step by step. For the thread that runs the model.

    later: for each layer with experts those after it that have some, nearest first.
    depth: layers, or None to look one layer ahead where it is measured to pay.
    """

    def __init__(
        self,
        experts: ExpertExecutor,
        later: Mapping[int, Sequence[Target]],
        depth: int | None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._experts = experts
        self._later = later
        self._guessed = sorted({t.moe.layer for targets in later.values() for t in targets})
        self._depth = depth
        self._clock = clock
        self.trial = Trial()
        self.votes = Votes()
        self._ranks: dict[int, Ranks] = {}  # by distance
        self._decoding = True
        self._hinted: list[Hinted] = []
        self._last: Guess | None = None  # of a prompt

    @contextmanager
    def step(self, step: Step, x: F32) -> Iterator[None]:
        """Around a walk through all layers. x: the residual stream, which they update in place."""
        rows = len(step.token_ids)
        self._decoding = rows == len(step.sequences)
        self._hinted, self._last = [], None
        if not self._decoding:
            self.votes.begin()
        idle = self._decoding and self._way == "idle"
        if not idle and not all(map(self._experts.complete, self._guessed)):
            step.guess = partial(self._guess, step, x)
        begin = self._clock()
        try:
            yield
        finally:
            step.guess = None  # it holds the step
            self._experts.expire()
        if self._decoding:
            self._learn(rows, self._clock() - begin)

    def _guess(self, step: Step, x: F32, layer: int, shared: F32 | None) -> None:
        """x holds the layer's attention by now, but not yet the shared expert's output."""
        depth = self._depth if self._depth is not None and self._decoding else 1
        targets, complete = self._later[layer], self._experts.complete
        wanted = [i for i, t in enumerate(targets[:depth]) if not complete(t.moe.layer)]
        if not wanted:
            return
        sample = slice(None, None, 1 if self._decoding else -(-len(x) // SAMPLE_ROWS))
        state = (
            x[sample] if shared is None else _with_shared(x[sample], shared[sample], step, sample)
        )
        for i in wanted:
            self._hint(i, targets[i], np.ascontiguousarray(state))

    @property
    def _way(self) -> Way:
        return self.trial.way if self._depth is None else "read"

    def _hint(self, distance: int, target: Target, state: F32) -> None:
        try:
            topk_ids = target.guess(state)
        except ValueError:
            # The router's word for values that are not finite. If the real ones are not either,
            # it will say so again.
            return
        if self._decoding:
            self._hint_best(distance, target.moe.layer, topk_ids)
        else:
            self._hint_certain(target.moe.layer, topk_ids)

    def _hint_best(self, distance: int, layer: int, topk_ids: I32) -> None:
        experts, ranked = _by_rank(topk_ids)
        ranks = self._ranks.setdefault(distance, Ranks(topk_ids.shape[1]))
        trusted = ranks.trusted
        read = bisect_left(ranked, trusted) if self._way == "read" else 0
        guess = self._experts.hint(layer, experts, read)
        self._hinted.append(Hinted(ranks, ranked, trusted, guess))

    def _hint_certain(self, layer: int, topk_ids: I32) -> None:
        if self._last is not None:
            self.votes.learn(self._last)
        votes = np.bincount(topk_ids.ravel())
        certain = [int(expert) for expert in np.flatnonzero(votes >= self.votes.needed)]
        # What any row votes for is rather kept: it may well be wanted.
        keep = [int(expert) for expert in np.flatnonzero(votes)]
        self._last = self._experts.hint(layer, certain, len(certain), keep)

    def _learn(self, rows: int, seconds: float) -> None:
        total = Guesses()
        for hinted in self._hinted:
            if hinted.guess.missing is not None:
                total += hinted.counts()
                hinted.ranks.learn(hinted.ranked, hinted.guess)
        if self._depth is None:
            self.trial.add(rows, seconds, total)


def _with_shared(x: F32, shared: F32, step: Step, sample: slice) -> F32:
    """The residual of some rows with what the shared expert brings to it."""
    if step.shares is None:
        return x + shared
    brought: F32 = step.shares[sample, :, None] * shared[:, None]
    return np.add(x, brought, out=brought)


def _by_rank(topk_ids: I32) -> tuple[list[int], list[int]]:
    """The experts of all rows, each once by its best rank, and these ranks."""
    flat = topk_ids.T.ravel()  # all first choices, all second choices, ...
    first = np.sort(np.unique(flat, return_index=True)[1])
    return flat[first].tolist(), (first // len(topk_ids)).tolist()


def with_lookahead(decoder: Decoder, experts: ExpertExecutor, setting: Setting) -> Decoder:
    """The decoder, looking ahead as the setting says: "off", "auto" or a number of layers."""
    if setting == "off":
        return decoder
    later: dict[int, list[Target]] = {}
    targets: list[Target] = []
    for layer in reversed(decoder.layers):
        if isinstance(layer.mlp, MoE):
            later[layer.mlp.layer] = targets
            targets = [Target(layer.mlp_input, layer.mlp), *targets]
    depth = setting if isinstance(setting, int) else None
    return replace(decoder, lookahead=Lookahead(experts, later, depth))

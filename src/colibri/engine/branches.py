"""Continuations of one prompt, scored depth first: what several begin with is computed once, on the
prompt's own state."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colibri.errors import ColibriError
from colibri.kernels import ops
from colibri.kvcache.sequence import SequenceState

F32 = NDArray[np.float32]


@dataclass(eq=False)
class _Node:
    token: int
    logprob: float = 0.0
    children: dict[int, _Node] = field(default_factory=dict)

    @property
    def inner(self) -> list[_Node]:
        """Children that something follows, so that their own rows are needed."""
        return [child for child in self.children.values() if child.children]


class BranchWalk:
    """begin() with the logits after the prompt; then next_ids() until it gives none, each time with
    a step, score() for every one of its rows, and done()."""

    def __init__(self, branches: Sequence[Sequence[int]]) -> None:
        self._branches = branches
        self._root = _Node(-1)
        for branch in branches:
            node = self._root
            for token in branch:
                node = node.children.setdefault(token, _Node(token))
        self._chain: list[_Node] = []
        self._pending: list[tuple[_Node, Any]] = []  # with its parent's state

    @property
    def left(self) -> bool:
        return bool(self._pending)

    def begin(self, logits: F32, state: SequenceState) -> None:
        self._pending = []
        _score(self._root, logits)
        self._visit(self._root, state)

    def next_ids(self, state: SequenceState, limit: int) -> list[int]:
        """The tokens of the next step; brings the state to where they follow."""
        node, checkpoint = self._pending[-1]
        state.restore(checkpoint)
        self._chain = [node]
        while len(self._chain) < limit and len(inner := self._chain[-1].inner) == 1:
            self._chain += inner
        return [node.token for node in self._chain]

    def score(self, row: int, logits: F32) -> None:
        _score(self._chain[row], logits)

    def done(self, state: SequenceState) -> None:
        """The step's rows are in the state."""
        self._pending.pop()
        self._visit(self._chain[-1], state)

    def _visit(self, node: _Node, state: SequenceState) -> None:
        if inner := node.inner:
            checkpoint = state.checkpoint()
            self._pending += [(child, checkpoint) for child in reversed(inner)]

    def logprobs(self) -> tuple[tuple[float, ...], ...]:
        """Of every token of each branch."""
        return tuple(self._of(branch) for branch in self._branches)

    def _of(self, branch: Sequence[int]) -> tuple[float, ...]:
        node, found = self._root, []
        for token in branch:
            node = node.children[token]
            found.append(node.logprob)
        return tuple(found)


def _score(node: _Node, logits: F32) -> None:
    total = float(ops.log_sum_exp(logits[None])[0])
    for token, child in node.children.items():
        child.logprob = float(logits[token]) - total
        if not math.isfinite(child.logprob):
            raise ColibriError(
                f"the model gives token {token} no finite log-probability: its files or a kernel "
                "are at fault; check the files, or report it with the prompt"
            )

"""What one forward pass works on: rows of several sequences side by side."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colibri.kernels.layer import StepRows
from colibri.kvcache.sequence import SequenceState
from colibri.layers.clock import NO_CLOCK, Clock

I32 = NDArray[np.int32]
I64 = NDArray[np.int64]
F32 = NDArray[np.float32]


@dataclass(frozen=True)
class Rows:
    """One sequence's rows of the step, and its state before them.

    marks: rows before which its state shall be kept, ascending; only where it is not trimmable.
    """

    start: int
    stop: int
    state: SequenceState
    marks: Sequence[int] = ()

    def pieces(self) -> Iterator[tuple[int, int]]:
        """Its rows, cut at the marks."""
        return pairwise((self.start, *self.marks, self.stop))


@dataclass
class Step:
    token_ids: I64  # [rows]
    positions: I64  # [rows]
    sequences: Sequence[Rows]
    before_layer: Callable[[int], object] = lambda layer: None  # progress; raises to cancel
    rope: tuple[F32, F32] | None = None  # cos, sin [rows, rotated dims / 2], set by the decoder
    kernel_rows: StepRows | None = None  # all rows, positions and tables, set by the decoder
    # The indexer's choice by sequence, for layers that share it: [rows of the sequence, topk], or
    # None for all keys.
    selection: list[I32 | None] = field(default_factory=list)
    clock: Clock = NO_CLOCK
    # What each stream of the residual gets of the second half's output, [rows, streams], set by
    # layers with several; None: there is one, and it gets all.
    shares: F32 | None = None
    # Lookahead listens here: a layer's number and its shared expert's output, while reads go on.
    guess: Callable[[int, F32 | None], None] | None = None

    def own(self, rows: Rows, *arrays: NDArray[Any]) -> Sequence[NDArray[Any]]:
        """Of each array [rows of the step, ...], what belongs to one sequence."""
        if len(self.sequences) == 1:
            return arrays
        return [a[rows.start : rows.stop] for a in arrays]

    @classmethod
    def of(
        cls,
        parts: Sequence[tuple[SequenceState, Sequence[int]]],
        before_layer: Callable[[int], object] | None = None,
        clock: Clock = NO_CLOCK,
        marks: Sequence[Sequence[int]] | None = None,
    ) -> "Step":
        """`parts`: each sequence's state and the token ids that follow it. marks: positions of
        each at which its state shall be kept, inside its rows."""
        rows: list[Rows] = []
        positions: list[int] = []
        token_ids: list[int] = []
        for i, (state, ids) in enumerate(parts):
            start, length = len(token_ids), state.length
            kept = [start + position - length for position in marks[i]] if marks else ()
            rows.append(Rows(start, start + len(ids), state, kept))
            positions += range(length, length + len(ids))
            token_ids += ids
        return cls(
            np.array(token_ids, np.int64),
            np.array(positions, np.int64),
            rows,
            before_layer or (lambda layer: None),
            clock=clock,
        )

"""Calls of the moe kernel for a union of experts or parts of it."""

import numpy as np

from colibri.experts.base import Floats
from colibri.experts.pairs import Indices, Pairs, select
from colibri.experts.stage import LayerStage
from colibri.kernels.moe import combine, moe


class Multiplier:
    """The pairs of one layer on one batch x [tokens, hidden], in two forms with the same bits.

    Either outputs are kept pair by pair, in any order of experts, and combined at the end; or runs
    of experts in ascending id are accumulated into y.
    """

    def __init__(self, stage: LayerStage, pairs: Pairs, x: Floats, planes: int) -> None:
        self._stage, self._pairs = stage, pairs
        self._x, self._planes = x, planes

    def some_pairs(self, experts: list[int], outputs: Floats) -> None:
        """outputs[p] = output of pair p's expert, for the pairs of some experts of the union."""
        pairs = self._pairs
        members = np.searchsorted(pairs.experts, experts)
        start, number = select(pairs, members)
        row, weight = pairs.row[number], pairs.weight[number]
        self._moe(pairs.experts[members], start, row, weight, outputs, number)

    def combine(self, outputs: Floats) -> Floats:
        y = self.zeros()
        combine(outputs, self._pairs.by_row, self._pairs.row_weight, y)
        return y

    def zeros(self) -> Floats:
        return np.zeros_like(self._x)

    def accumulate(self, first: int, count: int, y: Floats) -> None:
        """y += the weighted outputs of experts first .. first + count of the union."""
        pairs = self._pairs
        start = pairs.start[first : first + count + 1]
        span = slice(start[0], start[-1])
        experts = pairs.experts[first : first + count]
        self._moe(experts, start - start[0], pairs.row[span], pairs.weight[span], y, None)

    def _moe(
        self,
        experts: Indices,
        start: Indices,
        row: Indices,
        weight: Floats,
        y: Floats,
        number: Indices | None,
    ) -> None:
        stage = self._stage
        parts, mults = stage.parts[experts], stage.multipliers[experts]
        moe(stage.layout, parts, mults, start, row, weight, self._x, self._planes, y, number)

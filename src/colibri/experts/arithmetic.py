"""Calls of the moe kernels for a batch's experts as they come to hand."""

import numpy as np

from colibri.experts.base import Floats, Ids
from colibri.experts.stage import LayerStage
from colibri.kernels.moe import combine, moe_some


class Multiplier:
    """One layer on one batch x [tokens, hidden], in two forms with the same bits.

    Either outputs are kept pair by pair, in any order of experts, and combined at the end; or
    experts in ascending id are accumulated into y.
    """

    def __init__(
        self,
        stage: LayerStage,
        topk_ids: Ids,
        topk_weights: Floats,
        x: Floats,
        limit: float,
    ) -> None:
        self._table = stage.table
        self._ids, self._weights = topk_ids, topk_weights
        self._x, self._limit = x, limit

    def some_pairs(self, experts: list[int], outputs: Floats) -> None:
        """outputs[p] = output of pair p's expert, for the pairs of some of the experts."""
        self._moe(experts, outputs, by_pair=True)

    def combine(self, outputs: Floats) -> Floats:
        y = np.empty_like(self._x)
        combine(outputs, self._ids, self._weights, y)
        return y

    def zeros(self) -> Floats:
        return np.zeros_like(self._x)

    def accumulate(self, experts: list[int], y: Floats) -> None:
        """y += the weighted outputs of these experts, whose ids follow those of earlier calls."""
        self._moe(experts, y, by_pair=False)

    def _moe(self, experts: list[int], y: Floats, by_pair: bool) -> None:
        rows = self._ids, self._weights, experts, self._x
        moe_some(self._table, *rows, y, by_pair, self._limit)

"""When each expert was selected last, counted in rows (tokens) of its layer."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from colibri.experts.base import Ids

Rows = NDArray[np.int64]
NEVER = -1


class Recency:
    """Since the model was loaded. For the thread that counts; a copy may be read by others."""

    def __init__(self, experts: Mapping[int, int]) -> None:
        """experts: how many, by layer."""
        self._rows = dict.fromkeys(experts, 0)
        self._last: dict[int, Rows] = {n: np.full(e, NEVER, np.int64) for n, e in experts.items()}

    def add(self, layer: int, ids: Ids, rows: int) -> None:
        """ids: of so many rows in turn, flat. Where rows differ in experts, a row is a mean one."""
        # Of an index that is named twice the later value stays.
        self._last[layer][ids] = self._rows[layer] + np.arange(len(ids)) * rows // max(len(ids), 1)
        self._rows[layer] += rows

    def copy(self) -> Recency:
        other = Recency({})
        other._rows = dict(self._rows)
        other._last = {n: last.copy() for n, last in self._last.items()}
        return other

    def ago(self) -> dict[int, Rows]:
        """By layer [experts]: rows since the last selection, 0 for the newest row's; NEVER."""
        return {
            n: np.where(last == NEVER, NEVER, self._rows[n] - 1 - last)
            for n, last in self._last.items()
        }

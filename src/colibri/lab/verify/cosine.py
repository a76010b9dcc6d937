"""How like two arrays are, summed piece by piece in double."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass
class Likeness:
    """Of everything that was added so far."""

    dot: float = 0.0
    aa: float = 0.0
    bb: float = 0.0
    largest_difference: float = 0.0
    same: bool = True

    def add(self, a: NDArray[Any], b: NDArray[Any]) -> None:
        x, y = a.astype(np.float64).ravel(), b.astype(np.float64).ravel()
        if not x.size:
            return
        self.dot += float(x @ y)
        self.aa += float(x @ x)
        self.bb += float(y @ y)
        largest = float(np.abs(x - y).max())
        if not largest <= self.largest_difference:  # also where it is no number
            self.largest_difference = largest
        self.same = self.same and largest == 0.0

    @property
    def cosine(self) -> float:
        """1 where both are zero, 0 where one is; not a number where one holds such."""
        if self.same:
            return 1.0
        norm = math.sqrt(self.aa) * math.sqrt(self.bb)
        return self.dot / norm if norm else 0.0


def likeness(a: NDArray[Any], b: NDArray[Any]) -> Likeness:
    found = Likeness()
    found.add(a, b)
    return found

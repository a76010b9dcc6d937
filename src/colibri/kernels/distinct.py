"""Distinct ids. NumPy's own functions import numpy.ma when they are first called, which takes 8 MB
that no plan has counted."""

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Int = TypeVar("Int", bound=np.integer[Any])


def distinct(ids: NDArray[Int]) -> NDArray[Int]:
    """Of an array of any shape, ascending."""
    ids = np.sort(ids, axis=None)
    first = np.ones(len(ids), np.bool_)
    first[1:] = ids[1:] != ids[:-1]
    return ids[first]

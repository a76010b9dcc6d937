"""The union of a batch's experts, and its (row, expert) pairs in the order of the kernels."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colibri.experts.base import Floats, Ids

Indices = NDArray[np.int64]


@dataclass(slots=True)
class Pairs:
    """All pairs of a call, sorted by expert id, then by row."""

    experts: Indices  # [experts] the union, ascending
    start: Indices  # [experts + 1] pairs of expert i: start[i] .. start[i + 1]
    row: Indices  # [pairs]
    weight: Floats  # [pairs]
    by_row: Indices  # [rows, k] numbers of a row's pairs, ascending, so in ascending expert id
    row_weight: Floats  # [rows, k] their weights


def pair_up(topk_ids: Ids, topk_weights: Floats, num_experts: int) -> Pairs:
    """Raises ValueError for ids out of range or twice in a row: a router never gives these."""
    rows, k = topk_ids.shape
    flat = topk_ids.ravel()
    if flat.min() < 0 or flat.max() >= num_experts:
        raise ValueError(f"expert ids {flat.min()}..{flat.max()} outside 0..{num_experts - 1}")
    # Narrow keys: NumPy sorts them in linear time.
    order = flat.astype(np.uint16).argsort(kind="stable")
    ids = flat[order]
    row = order // k
    is_same = ids[1:] == ids[:-1]
    if (is_same & (row[1:] == row[:-1])).any():
        raise ValueError("an expert is named twice in one row")
    start = np.concatenate(([0], (~is_same).nonzero()[0] + 1, [ids.size]))
    by_row = np.empty_like(order)
    by_row[order] = np.arange(ids.size)
    by_row = np.sort(by_row.reshape(rows, k), axis=1)
    weight = topk_weights.ravel()[order]
    experts = ids[start[:-1]].astype(np.int64)
    return Pairs(experts, start, row, weight, by_row, weight[by_row])


def select(pairs: Pairs, members: Indices) -> tuple[Indices, Indices]:
    """The pairs of some experts (indices into pairs.experts): their starts and their numbers."""
    first = pairs.start[members]
    counts = pairs.start[members + 1] - first
    start = np.concatenate(([0], counts.cumsum()))
    return start, np.repeat(first - start[:-1], counts) + np.arange(start[-1])

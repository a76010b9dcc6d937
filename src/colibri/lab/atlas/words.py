"""What else routing says of an expert: the tokens it is for, and who is selected with it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

I32 = NDArray[np.int32]
I64 = NDArray[np.int64]

MOST_TOKENS, MOST_NEIGHBOURS = 5, 4
_LEAST = 2  # times that a pair was seen


def strongest_tokens(ids: I32, tokens: I64, experts: int) -> list[list[int]]:
    """ids [rows, k], tokens [rows] -> by expert the tokens that speak for it most: of a token that
    it got n times, of its own N, n * log(n / N : the token's share of all), if positive."""
    rows, k = ids.shape
    named, places = np.unique(tokens, return_inverse=True)
    flat = ids.ravel().astype(np.int64) * len(named) + np.repeat(places, k)
    pairs, counts = np.unique(flat, return_counts=True)
    of_expert, of_token = pairs // len(named), pairs % len(named)
    mine = np.bincount(of_expert, counts, experts)[of_expert]
    everywhere = np.bincount(places, minlength=len(named))[of_token] / rows
    score = counts * np.log(counts / mine / everywhere)
    return _best(of_expert, named[of_token], score, counts >= _LEAST, experts, MOST_TOKENS)


def neighbours(ids: I32, experts: int) -> list[list[int]]:
    """ids [rows, k] -> by expert those of its layer that are selected together with it more often
    than by chance: n * log(n / the number expected), if positive."""
    rows = len(ids)
    chosen = np.zeros((rows, experts), np.float32)
    np.put_along_axis(chosen, ids.astype(np.int64), 1.0, axis=1)
    # Whole numbers far below 2^24: exact in any order of summing.
    together = (chosen.T @ chosen).astype(np.float64)
    own = np.diag(together).copy()
    np.fill_diagonal(together, 0.0)
    one, other = np.nonzero(together >= _LEAST)
    counts = together[one, other]
    score = counts * np.log(counts * rows / (own[one] * own[other]))
    return _best(one, other, score, np.ones(len(one), np.bool_), experts, MOST_NEIGHBOURS)


def _best(
    keys: I64,
    values: I64,
    score: NDArray[np.float64],
    allowed: NDArray[np.bool_],
    n: int,
    most: int,
) -> list[list[int]]:
    """By key the values of highest score above 0; ties to the lower value."""
    at = np.flatnonzero(allowed & (score > 0))
    order = at[np.lexsort((values[at], -score[at], keys[at]))]
    found: list[list[int]] = [[] for _ in range(n)]
    for key, value in zip(keys[order].tolist(), values[order].tolist(), strict=True):
        if len(found[key]) < most:
            found[key].append(value)
    return found

"""How many of a token's experts a cache of so many slots will hold.

Che's approximation: an expert stays for a time T after its last use, the same for all, which the
slots decide. Drawn evenly it gives slots / experts, which is exact whatever the policy; a real
model's routing is uneven and persists, so more hits come.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def expected_hit_rate(slots: int, experts_per_token: int, popularity: Sequence[float]) -> float:
    """Share of a layer's demands that are hits, once the cache is warm.

    popularity: how often each expert is chosen, in any unit; at least one more than 0.
    """
    chosen = _shares(experts_per_token, np.asarray(popularity, np.float64))
    if slots >= np.count_nonzero(chosen):
        return 1.0
    stays = _stays(slots, chosen)
    return float((chosen * stays).sum() / chosen.sum())


def _shares(k: int, popularity: NDArray[np.float64]) -> NDArray[np.float64]:
    """The probability that a token takes each: k in all, none above 1."""
    popularity = popularity[popularity > 0]
    shares = np.zeros_like(popularity)
    sure = np.zeros(len(popularity), np.bool_)
    for _ in range(k + 1):
        left = k - np.count_nonzero(sure)
        rest = popularity[~sure].sum()
        shares[sure] = 1.0
        if rest > 0:
            shares[~sure] = left * popularity[~sure] / rest
        if not (shares > 1).any():
            return shares
        sure = shares >= 1
    return np.minimum(shares, 1.0)


def _stays(slots: int, chosen: NDArray[np.float64]) -> NDArray[np.float64]:
    """The probability that each is cached: 1 - (1 - p)^T, the sum being the slots."""
    misses = np.log1p(-np.minimum(chosen, 1 - 1e-12))
    low, high = 0.0, 1.0
    while -np.expm1(misses * high).sum() < slots:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        enough = -np.expm1(misses * middle).sum() >= slots
        low, high = (low, middle) if enough else (middle, high)
    stays: NDArray[np.float64] = -np.expm1(misses * high)
    return stays

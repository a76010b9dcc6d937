"""Attention over a cache, and the indexer that chooses keys for sparse attention."""

import numpy as np
from numpy.typing import NDArray

from colibri import _native

Floats = NDArray[np.float32]
_NO_WINDOW = 1 << 62


def attend(
    q: Floats,
    k: Floats,
    v: Floats,
    positions: NDArray[np.int64],
    scale: float,
    *,
    window: int | None = None,
    index: NDArray[np.int32] | None = None,
    out: Floats | None = None,
) -> Floats:
    """softmax(scale * q k^T) v -> [rows, heads, dv]. A row's bits depend on nothing but the row.

    q [rows, heads, dk]; k [keys, kv_heads, dk] and v [keys, kv_heads, dv] may be strided views of a
    cache, v may be columns of k. Row t sees keys 0 .. positions[t], of them the last `window`, or
    those that index [rows, n] lists (ascending, then -1); index and window exclude each other.
    """
    if index is not None and window is not None:
        raise ValueError("attend takes an index or a window, not both")
    out = np.empty((*q.shape[:2], v.shape[-1]), np.float32) if out is None else out
    _native.attend(q, k, v, positions, scale, _NO_WINDOW if window is None else window, index, out)
    return out


# Scores that index_scores_select keeps at a time; more only if one row has more.
INDEX_SCORES = _native.INDEX_SCORES


def index_scores_select(
    iq: Floats, w: Floats, ik: Floats, positions: NDArray[np.int64], topk: int, pool: int = 1
) -> NDArray[np.int32]:
    """The topk best of the positions 0 .. positions[t], ascending, then -1 -> [rows, selected(..)].

    score = sum over heads of w [rows, heads] * relu(iq [rows, heads, dim] . ik [keys, dim]); ties
    go to the lower key. A key stands for `pool` positions, the topk // pool best keys are taken
    whole; a row chooses among those that end at its position or before, and takes what lies behind
    the last of them besides. ValueError: a score is not finite (the row is named), or pool > topk.
    """
    out = np.empty((len(iq), selected(topk, pool)), np.int32)
    _native.index_scores_select(iq, w, ik, positions, pool, out)
    return out


def selected(topk: int, pool: int = 1) -> int:
    """The most positions that a row may select; it selects all where it sees no more."""
    return max(topk, 0) // pool * pool + pool - 1


def pool_keys(rows: Floats, bias: Floats, out: Floats) -> None:
    """Keys of pools, into out [pools, dim], of rows [pools * pool, 2, dim], each its key and gate.

    Channel by channel, the pool's keys weighted by softmax(gate + bias), bias [pool, dim]; a pool's
    bits depend on its own rows only. What is not finite becomes NaN.
    """
    _native.pool_keys(rows, bias, out)

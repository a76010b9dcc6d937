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


def index_scores_select(
    iq: Floats, w: Floats, ik: Floats, positions: NDArray[np.int64], topk: int
) -> NDArray[np.int32]:
    """The topk best keys of 0 .. positions[t], ascending, then -1 -> [rows, topk].

    score = sum over heads of w [rows, heads] * relu(iq [rows, heads, dim] . ik [keys, dim]); ties
    go to the lower key. ValueError: a score is not finite (the row is named).
    """
    out = np.empty((len(iq), max(topk, 0)), np.int32)
    _native.index_scores_select(iq, w, ik, positions, out)
    return out

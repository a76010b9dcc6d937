"""Which experts a token goes to. Best first, ties to the lower id; weights in the same order."""

import numpy as np
from numpy.typing import NDArray

from colibri import _native

Floats = NDArray[np.float32]
Choice = tuple[NDArray[np.int32], Floats]  # ids, weights: both [rows, k]


def _empty(rows: int, k: int) -> Choice:
    return np.empty((rows, max(k, 0)), np.int32), np.empty((rows, max(k, 0)), np.float32)


def softmax_topk(logits: Floats, k: int, renormalize: bool) -> Choice:
    """The k largest of softmax(logits [rows, experts]), divided by their sum where `renormalize`.

    ValueError: a logit is not finite (the row is named).
    """
    ids, weights = _empty(len(logits), k)
    _native.softmax_topk(logits, k, renormalize, ids, weights)
    return ids, weights


def sigmoid_topk(
    logits: Floats,
    bias: Floats,
    k: int,
    n_group: int,
    topk_group: int,
    renormalize: bool,
    scale: float,
) -> Choice:
    """Chosen by sigmoid(logits) + bias, within the topk_group groups whose two best sum highest.

    The weight is sigmoid(logit), over (the chosen ones' sum + 1e-20) where `renormalize`, times
    scale.
    ValueError: a logit or bias is not finite (the row or expert is named).
    """
    ids, weights = _empty(len(logits), k)
    _native.sigmoid_topk(logits, bias, k, n_group, topk_group, renormalize, scale, ids, weights)
    return ids, weights

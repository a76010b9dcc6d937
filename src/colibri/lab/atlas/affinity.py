"""From counts to a picture: how much each expert is for each topic, and where that puts it.

share[e, t] = (c[e, t] + s) / sum over topics of (c[e, t'] + s)

with c[e, t] = selections[e, t] * mean tokens / tokens[t]: selections as if every topic had the same
number of tokens; s = SMOOTHING selections a topic keep an expert that was hardly ever selected from
looking like a specialist. An expert's place is its row of shares, less the mean row, along the
three directions in which the rows differ most (their principal components).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]

SMOOTHING = 2.0
AXES = 3
SPECIALIST = 2.5  # times the even share that the main topic of one has


def shares(selections: I64, tokens: I64) -> F64:
    """selections [experts, topics], tokens [topics] -> [experts, topics], each row adding up to
    1."""
    counts = selections * (tokens.mean() / tokens) + SMOOTHING
    found: F64 = counts / counts.sum(axis=1, keepdims=True)
    return found


def entropy(rows: F64) -> F64:
    """Of each row of shares, from 0 (one topic) to 1 (all alike)."""
    found: F64 = -(rows * np.log(rows)).sum(axis=1) / np.log(rows.shape[1])
    return found


def specialists(rows: F64) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = rows.max(axis=1) * rows.shape[1] >= SPECIALIST
    return found


def project(rows: F64) -> tuple[F64, F64, F64]:
    """rows [experts, topics] -> places [experts, 3] and topics' directions [topics, 3], both within
    the unit ball, and the three axes' shares of the variance.

    The directions are where an expert of that topic alone would be seen; each axis points to where
    its largest loading is positive, so the same rows give the same picture.
    """
    centred = rows - rows.mean(axis=0)
    values, vectors = np.linalg.eigh(centred.T @ centred)
    order = np.argsort(-values, kind="stable")[:AXES]
    axes = vectors[:, order]
    largest = np.abs(axes).argmax(axis=0)
    axes = axes * np.where(axes[largest, np.arange(AXES)] < 0, -1.0, 1.0)
    places = centred @ axes
    places /= max(float(np.linalg.norm(places, axis=1).max(initial=0.0)), 1e-12)
    poles = (np.eye(rows.shape[1]) - rows.mean(axis=0)) @ axes
    poles /= np.maximum(np.linalg.norm(poles, axis=1, keepdims=True), 1e-12)
    total = max(float(values.sum()), 1e-300)
    return places, poles, np.maximum(values[order], 0.0) / total

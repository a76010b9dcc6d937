"""Layers of grouped attention and routed experts, one after the other in one call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from colibri import _native
from colibri.kernels.layer import GroupedAttention, Norm, RoutedExperts, StepRows

F32 = npt.NDArray[np.float32]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
# Norm and attention, norm and experts.
WalkedLayer = tuple[Norm, GroupedAttention, Norm, RoutedExperts]


@dataclass(slots=True)
class Walked:
    """layers: that were walked whole. y [rows, hidden]: what is still to be added to the residual;
    or, where an expert of the next layer was not at hand, the norm that its choice was made for,
    its attention being done: then it counts as begun. bad_row: of that layer, one whose router
    logits are not finite, or -1.

    By layer: ids, weights [layers, rows, k], the choices; named [layers], how many distinct experts
    were run; moments [layers, 3, 2], as Moment: when attention, router and experts began.
    """

    layers: int
    begun: int
    bad_row: int
    y: F32
    ids: I32
    weights: F32
    named: I64
    moments: I64


class Walk:
    """Every layer has the bits of its GroupedAttention and RoutedExperts called in turn. All choose
    as many experts. patience: seconds; a call ends after the layer in which they are over."""

    def __init__(self, layers: Sequence[WalkedLayer], patience: float) -> None:
        parts = [(a, attention.native, b, experts.native) for a, attention, b, experts in layers]
        self._native = _native.make_walk(parts)
        self._count, self._k = len(layers), layers[0][3].k
        self._patience_ns = int(patience * 1e9)

    def __call__(self, first: int, x: F32, y: F32 | None, rows: StepRows) -> Walked:
        """From the layer of this number on, x [rows, hidden] updated in place: see kernels/layer.py
        for x and y. IndexError: a cache is full."""
        layers, shape = self._count - first, (self._count - first, len(x), self._k)
        ids, weights = np.empty(shape, np.int32), np.empty(shape, np.float32)
        named, moments = np.empty(layers, np.int64), np.empty((layers, 3, 2), np.int64)
        pair = np.empty(x.shape, np.float32) if y is None else y, np.empty(x.shape, np.float32)
        streams, add = (first, x, *pair), y is not None
        walked, begun, bad_row = _native.walk(
            self._native, *streams, add, rows, ids, weights, named, moments, self._patience_ns
        )
        return Walked(walked, begun, bad_row, pair[walked % 2], ids, weights, named, moments)

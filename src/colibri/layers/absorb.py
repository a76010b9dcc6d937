"""MLA's kv_b as the two matrices that absorption multiplies by: per head, the transposed key half
and the value half."""

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from colibri.container.reader import Container
from colibri.kernels.packing import (
    BLOCK_ROWS,
    LARGEST_SCALE,
    DenseMatrix,
    Matrix,
    PackedMatrix,
    ScaleRange,
    Scheme,
    multiplier_for,
    pack,
    packed_bytes,
    scale_range,
)

Weights = NDArray[Any]
Half = Callable[[int], Weights]


def load_absorbed(
    container: Container,
    name: str,
    *,
    heads: int,
    nope_dim: int,
    value_dim: int,
    bits: Literal["source", 8, 4],
) -> tuple[Matrix, Matrix]:
    """kv_b [heads * (nope + value), latent] -> key [heads * latent, nope], value [heads * value,
    latent].

    A half whose rows a head do not fill blocks of 16 stays in the source's dtype at any `bits`.
    """
    rows = nope_dim + value_dim

    def key(head: int) -> Weights:  # [latent, nope]
        start = head * rows
        return np.ascontiguousarray(container.read_rows(name, start, start + nope_dim).T)

    def value(head: int) -> Weights:  # [value, latent]
        start = head * rows + nope_dim
        return container.read_rows(name, start, start + value_dim)

    return _stack(key, heads, bits), _stack(value, heads, bits)


def _stack(half: Half, heads: int, bits: Literal["source", 8, 4]) -> Matrix:
    rows = len(half(0))
    if bits == "source" or rows % BLOCK_ROWS:
        return DenseMatrix(np.concatenate([half(head) for head in range(heads)]))
    scheme: Scheme = "int8-gs64" if bits == 8 else "int4-gs64"
    return _pack_heads(half, heads, rows, scheme)


def _pack_heads(half: Half, heads: int, rows: int, scheme: Scheme) -> PackedMatrix:
    cols = half(0).shape[1]
    size = packed_bytes(scheme, rows, cols)
    data = np.empty(heads * size, np.uint8)

    def pack_all(multiplier: float) -> ScaleRange:
        smallest, largest = float("inf"), 0.0
        for head in range(heads):
            w, target = half(head), data[head * size : (head + 1) * size]
            found = scale_range(w, scheme)
            if found.largest <= LARGEST_SCALE * multiplier:
                pack(w, scheme, multiplier, target)
            smallest, largest = min(smallest, found.smallest), max(largest, found.largest)
        return ScaleRange(smallest, largest)

    # Nearly every matrix needs no multiplier, and one pass tells; a second is rare.
    multiplier = multiplier_for(pack_all(1.0))
    if multiplier != 1.0:
        pack_all(multiplier)
    return PackedMatrix(scheme, heads * rows, cols, data, multiplier)

"""Random weights at disk speed: a ring of row blocks is made once for a width and read round.

Rows are N(0, 1 / inputs), so that products keep the size of their inputs and logits are ordinary.
The number of blocks is prime: matrices that start elsewhere in the ring differ.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from colibri.errors import ConfigError
from colibri.formats.names import Scheme
from colibri.formats.packed import BLOCK_ROWS, SCHEMES, pack

U8 = npt.NDArray[np.uint8]

RING_BLOCKS = 257
Dtype = Scheme | None  # None: bf16


def normal_rows(rng: np.random.Generator, rows: int, cols: int) -> npt.NDArray[np.float32]:
    values = rng.standard_normal((rows, cols), np.float32)
    values *= np.float32(cols**-0.5)
    return values


def to_bf16(values: npt.NDArray[np.float32]) -> npt.NDArray[np.uint16]:
    """Rounded towards zero: random weights need no better."""
    return (values.view(np.uint32) >> 16).astype(np.uint16)


class Ring:
    """Blocks of 16 rows of `cols` inputs, packed by `dtype` (multiplier 1) or as bf16."""

    def __init__(self, dtype: Dtype, cols: int, seed: int) -> None:
        rng = np.random.default_rng((seed, cols))
        size = 2 * BLOCK_ROWS * cols if dtype is None else SCHEMES[dtype].block_bytes(cols)
        self._blocks = np.empty((RING_BLOCKS, size), np.uint8)
        for block in self._blocks:
            rows = normal_rows(rng, BLOCK_ROWS, cols)
            if dtype is None:
                block[:] = to_bf16(rows).reshape(-1).view(np.uint8)
            else:
                pack(rows, SCHEMES[dtype], 1.0, block)

    def take(self, start: int, count: int) -> U8:
        """The bytes of `count` blocks from `start` on, round the ring."""
        return self._blocks[np.arange(start, start + count) % RING_BLOCKS].reshape(-1)


class Rings:
    """A ring for each form and width, made when first asked for."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._rings: dict[tuple[Dtype, int], Ring] = {}

    def get(self, dtype: Dtype, cols: int) -> Ring:
        key = (dtype, cols)
        if key not in self._rings:
            self._rings[key] = Ring(dtype, cols, self.seed)
        return self._rings[key]


def blocks_of(rows: int, what: str) -> int:
    if rows % BLOCK_ROWS:
        raise ConfigError(f"{what}: {rows} rows; a synthetic matrix needs a multiple of 16")
    return rows // BLOCK_ROWS

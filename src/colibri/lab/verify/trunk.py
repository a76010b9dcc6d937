"""The tensors of two trunks, piece by piece."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colibri.container.reader import Container
from colibri.container.trunk import load_matrix, load_vector
from colibri.errors import ContainerError
from colibri.formats.base import decode
from colibri.formats.packed import BLOCK_ROWS
from colibri.lab.verify.cosine import Likeness

F32 = NDArray[np.float32]

_PIECE_ELEMENTS = 1 << 20


@dataclass(frozen=True)
class ComparedTensor:
    name: str
    stored: str  # dtype or scheme in the converted model
    cosine: float
    largest_difference: float


def compare_trunks(
    source: Container, converted: Container, step: Callable[[], None] = lambda: None
) -> Iterator[ComparedTensor]:
    """Every tensor of the source. Raises ContainerError where one is missing or reshaped."""
    for name in sorted(source.names()):
        if name not in converted.names():
            raise ContainerError(f"{converted.path}: tensor {name!a} of the source is missing")
        a, b = source.info(name), converted.info(name)
        if a.shape != b.shape:
            raise ContainerError(
                f"{converted.path}: tensor {name!a}: shape {list(b.shape)}, the source has "
                f"{list(a.shape)}"
            )
        found = _compare(source, converted, name)
        yield ComparedTensor(name, b.format.name, found.cosine, found.largest_difference)
        step()


def _compare(source: Container, converted: Container, name: str) -> Likeness:
    found, shape = Likeness(), source.info(name).shape
    if len(shape) != 2:
        found.add(load_vector(source, name), load_vector(converted, name))
        return found
    size = max(BLOCK_ROWS, _PIECE_ELEMENTS // max(shape[1], 1) // BLOCK_ROWS * BLOCK_ROWS)
    for start in range(0, shape[0], size):
        stop = min(start + size, shape[0])
        found.add(rows_of(source, name, start, stop), rows_of(converted, name, start, stop))
    return found


def rows_of(container: Container, name: str, start: int, stop: int) -> F32:
    """Rows of a matrix as float32, exactly as stored. start: a multiple of 16."""
    bits = container.info(name).stored_bits or "source"
    return decode(load_matrix(container, name, bits, rows=slice(start, stop)))

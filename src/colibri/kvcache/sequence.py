"""The state of one sequence over all layers."""

from collections.abc import Sequence
from typing import Any

from colibri.kvcache.base import LayerCache


class SequenceState:
    def __init__(self, layers: Sequence[LayerCache]) -> None:
        self.layers = tuple(layers)
        self.kernels = [layer.kernel for layer in self.layers]

    @property
    def length(self) -> int:
        """Positions every layer has. Layers differ only inside a step, or after one that failed."""
        return min(layer.length for layer in self.layers)

    @property
    def touched(self) -> int:
        return max(layer.touched for layer in self.layers)

    @property
    def nbytes(self) -> int:
        return sum(layer.nbytes for layer in self.layers)

    def checkpoint(self) -> tuple[Any, ...]:
        return tuple(layer.checkpoint() for layer in self.layers)

    def restore(self, checkpoint: tuple[Any, ...]) -> None:
        for layer, saved in zip(self.layers, checkpoint, strict=True):
            layer.restore(saved)

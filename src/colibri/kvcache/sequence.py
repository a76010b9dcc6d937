"""The state of one sequence over all layers."""

from collections.abc import Sequence
from typing import Any

from colibri.kernels.layer import KeyValues
from colibri.kvcache.base import LayerCache


class SequenceState:
    def __init__(self, layers: Sequence[LayerCache]) -> None:
        self.layers = tuple(layers)
        self.kernels = [layer.kernel for layer in self.layers]
        # What knows a layer's length first hand: asked several times a token, in every layer.
        self._counts = [
            layer.kernel if isinstance(layer.kernel, KeyValues) else layer for layer in self.layers
        ]

    @property
    def length(self) -> int:
        """Positions every layer has. Layers differ only inside a step, or after one that failed."""
        return min([counted.length for counted in self._counts])

    @property
    def trimmable(self) -> bool:
        """Whether it can be cut to any length that it had."""
        return all(layer.trimmable for layer in self.layers)

    @property
    def touched(self) -> int:
        """Positions whose memory has been taken: the first layer is the first to take any."""
        return self.layers[0].touched

    @property
    def nbytes(self) -> int:
        return sum(layer.nbytes for layer in self.layers)

    def checkpoint(self) -> tuple[Any, ...]:
        return tuple(layer.checkpoint() for layer in self.layers)

    def restore(self, checkpoint: tuple[Any, ...]) -> None:
        for layer, saved in zip(self.layers, checkpoint, strict=True):
            layer.restore(saved)

    def checkpoint_at(self, position: int) -> tuple[Any, ...]:
        """As it was within the last step, at a position that the step was told of."""
        return tuple(layer.checkpoint_at(position) for layer in self.layers)

    def copy_from(self, other: "SequenceState", checkpoint: tuple[Any, ...]) -> None:
        """Become what the other one was at its checkpoint. What this one held is lost."""
        layers = zip(self.layers, other.layers, checkpoint, strict=True)
        for mine, theirs, saved in layers:
            mine.copy_from(theirs, saved)

"""What a layer with the delta rule keeps: the last inputs of its convolution and a matrix a head,
as large for a long sequence as for a short one.

It cannot be cut back to an earlier length, so a checkpoint keeps it as it was. Nothing is copied:
while a checkpoint is alive, the next step writes to other memory than that which it reads.
"""

from dataclasses import dataclass
from weakref import WeakSet

import numpy as np

from colibri.kernels.delta import DeltaShape, Recurrent, recurrent
from colibri.kernels.layer import KeyValues
from colibri.kvcache.base import F32
from colibri.kvcache.memory import untouched


class _Memory:
    def __init__(self, shape: DeltaShape) -> None:
        self.window = untouched(shape.window_shape)
        self.matrix = untouched(shape.matrix_shape)
        self.kernel = recurrent(self.window, self.matrix)


@dataclass(frozen=True, eq=False)
class Remembered:
    """A checkpoint: valid as long as it lives, whatever happens to the state."""

    length: int
    memory: _Memory | None  # None: nothing was remembered yet


class RecurrentState:
    """A LayerCache. It takes its own size once, and once more for every checkpoint alive."""

    trimmable = False

    def __init__(self, shape: DeltaShape) -> None:
        self.shape = shape
        self.length = 0
        self.touched = 0
        self._memory: _Memory | None = None  # None: nothing is remembered, as if all were zero
        self._spare: _Memory | None = None
        self._saved: WeakSet[Remembered] = WeakSet()
        self._marked: dict[int, Remembered] = {}  # within the last step

    @property
    def kernel(self) -> KeyValues | None:
        return None

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in self.state)

    def advance(self, tokens: int) -> tuple[Recurrent | None, Recurrent]:
        """What a kernel reads and what it writes on the way through so many tokens."""
        before = self._memory
        if before is None or self._is_saved(before):
            spare = self._spare
            self._memory = _Memory(self.shape) if spare is None or self._is_saved(spare) else spare
            self._spare = before
        assert self._memory is not None
        self.length += tokens
        self.touched = max(self.touched, self.length)
        return before.kernel if before else None, self._memory.kernel

    def truncate(self, length: int) -> None:
        if length != self.length:
            raise IndexError(
                f"a recurrent state of {self.length} positions cannot be cut to {length}: "
                "restore a checkpoint"
            )

    def checkpoint(self) -> Remembered:
        saved = Remembered(self.length, self._memory)
        self._saved.add(saved)
        return saved

    def mark(self) -> None:
        """Within a step: checkpoint_at() this length will be asked for."""
        self._marked[self.length] = self.checkpoint()

    def checkpoint_at(self, position: int) -> Remembered:
        return self._marked.pop(position)

    def copy_from(self, other: "RecurrentState", checkpoint: Remembered) -> None:
        self._marked.clear()
        self._memory = None
        if checkpoint.memory is not None:
            self._memory = _Memory(self.shape)
            self._memory.window[:] = checkpoint.memory.window
            self._memory.matrix[:] = checkpoint.memory.matrix
        self.length = checkpoint.length
        self.touched = max(self.touched, self.length)

    def restore(self, checkpoint: Remembered) -> None:
        self._marked.clear()
        if checkpoint.memory is not self._memory:
            self._spare, self._memory = self._memory, checkpoint.memory
        self.length = checkpoint.length

    def _is_saved(self, memory: _Memory) -> bool:
        return any(saved.memory is memory for saved in self._saved)

    @property
    def state(self) -> tuple[F32, ...]:
        if self._memory is None:
            shapes = (self.shape.window_shape, self.shape.matrix_shape)
            return tuple(np.zeros(shape, np.float32) for shape in shapes)
        return self._memory.window, self._memory.matrix

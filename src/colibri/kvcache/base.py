"""What a layer remembers of a sequence. One object a layer; the contract holds for recurrent state
too."""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from colibri.kernels.layer import KeyValues
from colibri.kvcache.memory import untouched

F32 = NDArray[np.float32]


class LayerCache(Protocol):
    """State of one layer for one sequence.

    `checkpoint()` returns a value that `restore()` takes back later, any number of times, as long
    as the cache has not been restored to an earlier one. A cache that is `trimmable` also has
    `truncate(n)`, and can go back to any length that it had. One that is not can only go back to
    positions within a step that were asked for before the step.
    """

    @property
    def trimmable(self) -> bool: ...

    @property
    def length(self) -> int: ...
    @property
    def touched(self) -> int:
        """Positions whose memory has been taken: the most that `length` ever was."""
        ...

    @property
    def kernel(self) -> KeyValues | None:
        """Buffers for a kernel that appends and counts rows itself; None: use append()."""
        ...

    @property
    def nbytes(self) -> int: ...
    def truncate(self, length: int) -> None: ...
    def checkpoint(self) -> Any: ...
    def restore(self, checkpoint: Any) -> None: ...
    def checkpoint_at(self, position: int) -> Any:
        """What checkpoint() would have returned at a position within the last step. If the cache
        is not trimmable, it can be asked for once."""
        ...

    def copy_from(self, other: Any, checkpoint: Any) -> None:
        """Become what another cache of this kind was at its checkpoint. What this one held is
        lost."""
        ...

    @property
    def state(self) -> tuple[F32, ...]:
        """The used part of every buffer, for saving and comparing."""
        ...


class RowCache:
    """Rows appended by position in buffers [capacity, ...]; the rest of the buffers is untouched
    memory."""

    trimmable = True

    def __init__(self, capacity: int, *row_shapes: tuple[int, ...]) -> None:
        self.capacity = capacity
        self._buffers = tuple(untouched((capacity, *shape)) for shape in row_shapes)
        self.length = 0
        self.touched = 0

    @property
    def kernel(self) -> KeyValues | None:
        return None

    @property
    def nbytes(self) -> int:
        """Bytes of the used rows."""
        return sum(b[: self.length].nbytes for b in self._buffers)

    def append(self, *rows: F32) -> None:
        """One array [tokens, ...] a buffer."""
        end = self.length + len(rows[0])
        if end > self.capacity:
            raise IndexError(f"cache of {self.capacity} positions cannot hold {end}")
        for buffer, new in zip(self._buffers, rows, strict=True):
            buffer[self.length : end] = new
        self.length = end
        self.touched = max(self.touched, end)

    def truncate(self, length: int) -> None:
        if not 0 <= length <= self.length:
            raise IndexError(f"cannot truncate a cache of {self.length} positions to {length}")
        self.length = length

    def checkpoint(self) -> Any:
        return self.length

    def restore(self, checkpoint: Any) -> None:
        self.truncate(checkpoint)

    def mark(self) -> None:
        """Within a step: checkpoint_at() this length will be asked for."""

    def checkpoint_at(self, position: int) -> Any:
        return position

    def copy_from(self, other: Any, checkpoint: Any) -> None:
        for mine, theirs in zip(self._buffers, other._buffers, strict=True):
            mine[:checkpoint] = theirs[:checkpoint]
        self.length = checkpoint
        self.touched = max(self.touched, checkpoint)

    @property
    def state(self) -> tuple[F32, ...]:
        return tuple(b[: self.length] for b in self._buffers)

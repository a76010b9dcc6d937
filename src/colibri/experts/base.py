"""The experts seam: what runs routed experts, and what staging needs to know of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Ids = NDArray[np.int32]
Multipliers = tuple[float, float, float]  # of gate, up and down
ReadFunction = Callable[[int, list[memoryview], int], int]  # the signature of os.preadv

PAGE = 4096  # alignment of slots, spans and direct reads


class ExpertExecutor(Protocol):
    """Runs the routed experts of a layer, wherever their weights are."""

    def run(self, layer: int, x: Floats, topk_ids: Ids, topk_weights: Floats) -> Floats:
        """Sum of the weighted outputs of each row's experts, in ascending expert id.

        x: [tokens, hidden]; topk_ids, topk_weights: [tokens, k], ids of a row distinct.
        Returns [tokens, hidden], bits independent of what was resident.
        """
        ...

    def hint(self, layer: int, expert_ids: Sequence[int]) -> None:
        """These experts are likely to be wanted soon: a wish without effect on results."""
        ...


class CachePolicy(Protocol):
    """The order in which one layer's resident experts are given up; every call O(1)."""

    def admit(self, expert: int) -> None:
        """The expert has got a slot."""
        ...

    def touch(self, expert: int) -> None:
        """The expert was used again."""
        ...

    def remove(self, expert: int) -> None:
        """The expert has lost its slot; unknown experts are ignored."""
        ...

    def victim(self, evictable: Callable[[int], bool]) -> int | None:
        """The first expert in the policy's order that may go; it stays until removed."""
        ...


@dataclass(frozen=True)
class ExpertStats:
    """Counters since the last reset. hits + misses = experts asked for (once a call each)."""

    hits: int = 0
    misses: int = 0
    evictions: int = 0
    reads: int = 0  # experts read
    bytes_read: int = 0
    read_seconds: float = 0.0  # service time, summed over the reader threads
    wait_seconds: float = 0.0  # time in which the arithmetic had nothing to do
    direct: bool = True  # False once a file had to be read through the page cache

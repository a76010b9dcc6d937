"""The experts seam: what runs routed experts, and what staging needs to know of them."""

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from colibri.kernels.moe import ExpertTable

Floats = NDArray[np.float32]
Ids = NDArray[np.int32]
Multipliers = tuple[float, float, float]  # of gate, up and down
ReadFunction = Callable[[int, list[memoryview], int], int]  # the signature of os.preadv

LAYER_KEYS = 1 << 16  # keys of a layer's experts in a pool of slots: more than any layer has
PAGE = 4096  # alignment of slots, spans and direct reads


class ExpertExecutor(Protocol):
    """Runs the routed experts of a layer, wherever their weights are."""

    def run(
        self,
        layer: int,
        x: Floats,
        topk_ids: Ids,
        topk_weights: Floats,
        meanwhile: Callable[[], None] = lambda: None,
        limit: float = math.inf,
    ) -> Floats:
        """Sum of the weighted outputs of each row's experts, in ascending expert id.

        x: [tokens, hidden]; topk_ids, topk_weights: [tokens, k], ids of a row distinct.
        meanwhile: called once, when the reads of missing experts are on their way; may hint.
        limit: of SwiGLU, as of ops.silu_mul.
        Returns [tokens, hidden], bits independent of what was resident.
        """
        ...

    def complete(self, layer: int) -> bool:
        """Whether all experts of the layer are at hand, so that no hint is of use."""
        ...

    def hint(
        self, layer: int, expert_ids: Sequence[int], read: int, keep: Collection[int] = ()
    ) -> "Guess":
        """The layer's next call will likely want these experts, the first ones most.

        The first `read` of them are read ahead, as far as there is room: none of the hinted, nor of
        those to keep, is evicted for it. Without effect on results. Replaces the layer's last hint.
        Returns what will tell how it compared.
        """
        ...

    def expire(self) -> None:
        """Takes all hints back: reads that have not begun do not begin."""
        ...


@runtime_checkable
class LocalExecutor(ExpertExecutor, Protocol):
    """An executor whose experts lie in this process's memory, so that a kernel can run what a
    router has chosen: instead of run(), where it is settled and all of that is at hand; ran()
    follows.
    """

    def table(self, layer: int) -> ExpertTable: ...

    @property
    def settled(self) -> bool:
        """Whether nothing has to be done before experts are run: no guess, no read is under way."""
        ...

    def ran(self, layer: int, topk_ids: Ids, named: int) -> None:
        """A kernel has run the experts of topk_ids [tokens, k], so many distinct ones."""
        ...


@dataclass(slots=True)
class Guess:
    """What a hint expected, and how it compared once the layer's call has come."""

    absent: dict[int, int]  # hinted experts that were not there, with their places in the hint
    missing: int | None = None  # how many of the call's experts were not there
    right: frozenset[int] = frozenset()  # those of the absent that the call wanted


@dataclass(frozen=True)
class Guesses:
    """Experts of the layers with a hint: wanted and not there; hinted and not there; both."""

    missing: int = 0
    guessed: int = 0
    right: int = 0

    @property
    def recall(self) -> float:
        return self.right / self.missing if self.missing else 0.0

    @property
    def precision(self) -> float:
        return self.right / self.guessed if self.guessed else 0.0

    def __add__(self, other: "Guesses") -> "Guesses":
        return Guesses(
            self.missing + other.missing, self.guessed + other.guessed, self.right + other.right
        )


class CachePolicy(Protocol):
    """The order in which the experts of a pool of slots are given up.

    A key is an expert's number + LAYER_KEYS x its layer's place in the pool. What a policy knows
    comes from the sequence of calls alone; each call costs O(1) a key, amortised, however many
    slots there are.
    """

    def __contains__(self, key: int) -> bool:
        """Whether the expert is in the order: has a slot that may be taken away."""
        ...

    def demand(self, keys: Sequence[int]) -> None:
        """A layer's call asks for these experts, with or without slots."""
        ...

    def admit(self, key: int) -> None:
        """The expert has got a slot, since it was asked for."""
        ...

    def admit_first_to_go(self, key: int) -> None:
        """The expert has got a slot on a guess: the next victim, until asked for."""
        ...

    def remove(self, key: int) -> None:
        """The expert has lost its slot, or keeps it for good; unknown experts are ignored."""
        ...

    def victims(self, count: int, evictable: Callable[[int], bool]) -> list[int]:
        """The first `count` in the policy's order that may go, or fewer; they stay until
        removed."""
        ...


@dataclass(frozen=True)
class DriveStats:
    """What was read from one of several drives, and how often a read from it failed or brought
    wrong bytes."""

    directory: str
    nbytes: int
    failures: int


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
    # Of reads ahead: those that ended well or badly, became useful, were evicted unused, never
    # began. A read is useful or wasted once it is known to be.
    prefetch_reads: int = 0
    prefetch_failed: int = 0
    prefetch_useful: int = 0
    prefetch_wasted_bytes: int = 0
    prefetch_expired: int = 0
    guesses: Guesses = Guesses()
    drives: tuple[DriveStats, ...] = ()  # where there are several

    def and_of_checks(self, other: "ExpertStats") -> "ExpertStats":
        """With what another executor did for this one's checks, which never looks ahead; drives
        are in both."""
        counted = ("hits", "misses", "reads", "bytes_read", "read_seconds", "wait_seconds")
        sums = {name: getattr(self, name) + getattr(other, name) for name in counted}
        return replace(self, direct=self.direct and other.direct, **sums)

    @property
    def lookahead_recall(self) -> float:
        """Share of the experts that were wanted and not there that had been guessed."""
        return self.guesses.recall

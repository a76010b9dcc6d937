"""What readers are told and tell: one expert on its way from disk into a slot."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from colibri.container.layerexperts import Span
from colibri.experts.base import Multipliers


@dataclass(eq=False, slots=True)
class Job:
    """One expert on its way from disk into a slot, which is the loader's until collected.

    finish runs once the bytes are there: it checks them and knows the multipliers. Where what is
    kept is not what is read, slot is a buffer in the meantime, and finish fills the slot itself.
    ahead: read before it was asked for. demanded: somebody waits for it by now.
    """

    layer: int
    expert: int
    spans: Sequence[Span]
    slot: memoryview
    finish: Callable[[memoryview], Multipliers]
    ahead: bool = False
    demanded: bool = True
    multipliers: Multipliers = (1.0, 1.0, 1.0)
    nbytes: int = 0
    seconds: float = 0.0  # of reading, summed over the readers
    error: Exception | None = None


def check(job: Job) -> None:
    """Once all its bytes are there: what is wrong with them becomes the job's error."""
    try:
        job.multipliers = job.finish(job.slot)
    except Exception as error:  # goes with the job to whoever waits for it
        job.error = error


class Readers(Protocol):
    """A bounded pool of threads that read jobs into their slots; its methods are for one thread.

    Demanded jobs go first, in the order given; then those read ahead, nearest layer first, which
    leave a reader free for the next demand.
    """

    def submit(self, jobs: Sequence[Job]) -> None: ...

    def promote(self, job: Job) -> None:
        """A job ahead is demanded from now on; if it had not begun, it is not `ahead` any more."""
        ...

    def withdraw(self, jobs: Collection[Job]) -> set[Job]:
        """Forgets those of the jobs read ahead that have not begun, and returns them."""
        ...

    def collect(self, timeout: float) -> list[Job]:
        """The jobs read, well or badly (`error`); waits at most `timeout` for the first."""
        ...

    def quiesce(self) -> list[Job]:
        """Forgets the jobs that have not begun, waits for the others; those that were read.

        Afterwards no reader touches any slot. May be called again if interrupted.
        """
        ...

    def close(self) -> None:
        """Ends the threads after the reads in progress."""
        ...

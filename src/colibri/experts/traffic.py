"""What was read and waited for, counted by the thread that runs the model."""

from dataclasses import dataclass, field

from colibri.experts.base import Guesses
from colibri.experts.reads.job import Job


@dataclass
class Traffic:
    """As in ExpertStats."""

    reads: int = 0
    bytes_read: int = 0
    read_seconds: float = 0.0
    wait_seconds: float = 0.0
    prefetch_reads: int = 0
    prefetch_failed: int = 0
    prefetch_useful: int = 0
    prefetch_expired: int = 0
    guesses: Guesses = field(default_factory=Guesses)

    def count(self, job: Job) -> None:
        self.reads += 1
        self.bytes_read += job.nbytes
        self.read_seconds += job.seconds
        if job.ahead:
            self.prefetch_reads += 1
            self.prefetch_failed += job.error is not None
            self.prefetch_useful += job.demanded and job.error is None

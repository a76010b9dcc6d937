"""One call's experts on their way into the cache: what is missing, in flight, ready, in use."""

import time
from bisect import insort
from collections.abc import Callable
from dataclasses import dataclass
from itertools import takewhile

from colibri.errors import Cancelled
from colibri.experts.loader import Job, Loader
from colibri.experts.stage import LayerStage

_GROUP = 4
_POLL_SECONDS = 0.05  # how long a cancel may go unseen while waiting


@dataclass
class Traffic:
    """What was read, counted by the thread that waits for it."""

    reads: int = 0
    bytes_read: int = 0
    read_seconds: float = 0.0
    wait_seconds: float = 0.0

    def count(self, job: Job) -> None:
        self.reads += 1
        self.bytes_read += job.nbytes
        self.read_seconds += job.seconds


class Staging:
    """Pins what is resident of a union (ascending) and brings the rest, lowest ids first.

    Every expert is pinned from the moment it is ready until released. When a call is broken off,
    settle() puts the cache right.
    """

    def __init__(
        self,
        stage: LayerStage,
        loader: Loader,
        experts: list[int],
        traffic: Traffic,
        cancelled: Callable[[], bool],
    ) -> None:
        self._stage, self._cache = stage, stage.cache
        self._loader = loader
        self._traffic = traffic
        self._cancelled = cancelled
        is_resident = stage.cache.resident
        self.hits = [e for e in experts if is_resident[e]]
        self._missing = [e for e in experts if not is_resident[e]]
        self._in_flight = 0
        for expert in self.hits:
            self._cache.pin(expert)
        self._cache.touch(self.hits)
        self._cache.hits += len(self.hits)
        self._cache.misses += len(self._missing)

    @property
    def in_flight(self) -> int:
        return self._in_flight

    @property
    def unfinished(self) -> bool:
        """Whether experts are still to come: in flight, or waiting for a slot."""
        return self._in_flight > 0 or bool(self._missing)

    def start_reads(self) -> None:
        """Starts as many of the missing reads as there are slots."""
        while self._missing:
            slot = self._cache.reserve(self._missing[0])
            if slot is None:
                return
            self._loader.submit(self._stage.job(self._missing.pop(0), slot))
            self._in_flight += 1

    def wait(self) -> list[int]:
        """Waits for at least one read; the experts that landed. Raises their errors."""
        assert self._in_flight
        begin = time.perf_counter()
        try:
            jobs: list[Job] = []
            while not jobs:
                self.check_cancelled()
                jobs = self._loader.collect(_POLL_SECONDS)
        finally:
            self._traffic.wait_seconds += time.perf_counter() - begin
        self._in_flight -= len(jobs)
        return land(self._stage, jobs, self._traffic)

    def check_cancelled(self) -> None:
        if self._cancelled():
            raise Cancelled("cancelled while experts were being run")

    def ready_from(self, experts: list[int], first: int) -> list[int]:
        """The ready experts from experts[first] on, up to the first that is not.

        A few only while others wait for slots: these get theirs sooner, and the disk keeps busy.
        """
        limit = first + _GROUP if self._missing else len(experts)
        return list(takewhile(self._cache.pinned, experts[first:limit]))

    def release(self, experts: list[int]) -> None:
        for expert in experts:
            self._cache.unpin(expert)

    def give_up_last_hit(self) -> None:
        """Evicts the ready expert that is needed last, to be read again when its turn comes."""
        expert = self.hits.pop()
        self._cache.unpin(expert)
        self._cache.drop(expert)
        self._cache.evictions += 1
        self._cache.hits -= 1
        self._cache.misses += 1
        insort(self._missing, expert)


def land(stage: LayerStage, jobs: list[Job], traffic: Traffic) -> list[int]:
    """Makes the experts of finished jobs resident (and pinned), then raises the first error.

    A failed expert keeps its slot until settle().
    """
    errors: list[Exception] = []
    landed: list[int] = []
    for job in jobs:
        traffic.count(job)
        if job.error is None:
            stage.land(job)
            landed.append(job.expert)
        else:
            errors.append(job.error)
    if errors:
        raise errors[0]
    return landed


def settle(stage: LayerStage, loader: Loader, traffic: Traffic) -> None:
    """Ends what a call left behind, however it ended: no read in flight, no pin, no lost slot.

    May itself be interrupted and called again.
    """
    for job in loader.quiesce():
        traffic.count(job)
        if job.error is None and stage.cache.is_loading(job.expert):
            stage.land(job)
    stage.cache.recover()

"""One call's experts on their way into the cache: what is missing, in flight, ready, in use."""

import time
from collections.abc import Callable, Mapping
from itertools import takewhile

from colibri.errors import Cancelled
from colibri.experts.admission import GROUP, Admission
from colibri.experts.ahead import ReadsAhead
from colibri.experts.reads.job import Job
from colibri.experts.reads.loader import Loader
from colibri.experts.stage import LayerStage
from colibri.experts.traffic import Traffic

_POLL_SECONDS = 0.05  # how long a cancel may go unseen while waiting


class Staging:
    """Takes what is resident of a union (ascending) in use and brings the rest, lowest ids first.

    Every expert is in use from the moment it is ready until released. What is on its way on a
    guess is waited for. When a call is broken off, settle() puts the cache right.
    in_order: the walk takes the experts in ascending order.
    """

    def __init__(
        self,
        stage: LayerStage,
        loader: Loader,
        ahead: ReadsAhead,
        experts: list[int],
        traffic: Traffic,
        cancelled: Callable[[], bool],
        in_order: bool,
    ) -> None:
        self._stage, self._cache = stage, stage.cache
        self._loader, self._ahead = loader, ahead
        self._traffic = traffic
        self._cancelled = cancelled
        self._experts = experts
        claimed = ahead.claim(stage, [e for e in experts if not stage.cache.resident[e]])
        self._coming = len(claimed)  # reads of this call
        self._admission = Admission(stage.cache, experts, claimed, in_order)
        self.hits = self._admission.hits

    @property
    def in_flight(self) -> int:
        """Reads into slots that the layer may get, those of wrong guesses too."""
        return self._coming + self._ahead.beside(self._stage)

    @property
    def unfinished(self) -> bool:
        """Whether experts are still to come: in flight, or waiting for a slot."""
        return self._coming > 0 or bool(self._admission.waiting)

    def start_reads(self) -> None:
        """Starts as many of the missing reads as there are slots."""
        jobs = [self._stage.job(*admitted) for admitted in self._admission.admit()]
        if jobs:
            self._coming += len(jobs)
            self._loader.submit(*jobs)

    def wait(self) -> list[int]:
        """Waits for a read into one of the layer's slots; the experts of this call that landed.

        There may be none of these. Raises the errors of their reads.
        """
        assert self.in_flight
        before = self.in_flight
        begin = time.perf_counter()
        jobs: list[Job] = []
        try:
            while self.in_flight - len(jobs) == before:
                self.check_cancelled()
                jobs += self._collect()
        finally:
            self._traffic.wait_seconds += time.perf_counter() - begin
        self._coming -= len(jobs)
        return self._land(jobs)

    def _collect(self) -> list[Job]:
        """The jobs of this call that have finished; those of guesses are put in their place."""
        finished = self._loader.collect(_POLL_SECONDS)
        for job in finished:
            if not job.demanded:
                self._ahead.arrived(job)
        return [job for job in finished if job.demanded]

    def _land(self, jobs: list[Job]) -> list[int]:
        """Makes the experts of finished jobs resident and in use, then raises the first error.

        A failed expert keeps its slot until settle(); if it was read on a guess it is read again.
        """
        errors: list[Exception] = []
        landed: list[int] = []
        for job in jobs:
            self._traffic.count(job)
            if job.error is None:
                self._stage.land(job)
                landed.append(job.expert)
            elif job.ahead:
                self._cache.drop(job.expert)
                self._admission.again(job.expert)
            else:
                errors.append(job.error)
        if errors:
            raise errors[0]
        return landed

    def check_cancelled(self) -> None:
        if self._cancelled():
            raise Cancelled("cancelled while experts were being run")

    def ready_from(self, experts: list[int], first: int) -> list[int]:
        """The ready experts to multiply now from experts[first] on, up to the first not ready."""
        return list(takewhile(self._cache.in_use, self.next_of(experts[first:])))

    def next_of(self, experts: list[int]) -> list[int]:
        """How many of these to multiply at once: a few only while others wait for slots.

        These get theirs sooner, and the disk keeps busy.
        """
        return experts[:GROUP] if self._admission.waiting else experts

    def release(self, experts: list[int]) -> None:
        self._cache.release(experts)

    def give_up_last(self) -> None:
        """Evicts the ready expert that is needed last, to be read again when its turn comes."""
        self._admission.give_up_last(self._experts)


def settle(
    stages: Mapping[int, LayerStage], loader: Loader, ahead: ReadsAhead, traffic: Traffic
) -> None:
    """Ends what a call left behind, however it ended: no read is in flight, no expert in use, no
    slot lost. Guesses end with it. May itself be interrupted and called again.
    """
    for job in loader.quiesce():
        traffic.count(job)
        stage = stages[job.layer]
        if job.error is None and stage.cache.is_loading(job.expert):
            if job.demanded:
                stage.land(job)
            else:
                stage.land_on_a_guess(job)
    ahead.forget()
    for pool in dict.fromkeys(stage.cache.pool for stage in stages.values()):
        pool.recover()

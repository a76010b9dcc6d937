"""Readers of several drives: a pool for each, so that a slow one keeps none of the others waiting.

A job is read in parts, one from each drive that has a copy. A part that cannot be read comes from
another copy; an expert whose bytes prove wrong is read once more, from one copy after the other.
"""

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field

from colibri._native import Bell
from colibri.errors import ContainerError
from colibri.experts.reads.job import Job, Readers, check
from colibri.experts.reads.sources import Copy, Drive, Part, Sources

_STEP_SECONDS = 0.05  # waits go in steps, so that Ctrl-C is seen

Pairs = Iterable[tuple["_Whole", Sequence[Part]]]


@dataclass(eq=False, slots=True)
class _Whole:
    """A job, its parts still to come by the job that reads each, and what is known of the rest."""

    job: Job
    parts: dict[Job, Part] = field(default_factory=dict)
    arrived: set[Drive] = field(default_factory=set)  # that bytes came from
    unreadable: set[Drive] = field(default_factory=set)
    # Once the bytes were wrong: the drives they came from, and the copies left to try.
    wrong: bool = False
    suspects: set[Drive] = field(default_factory=set)
    left: list[Copy] = field(default_factory=list)

    @property
    def begun(self) -> bool:
        return bool(self.arrived or self.unreadable)


class StripedReaders:
    """Readers whose jobs are also checked. make: a pool that rings a bell when it has read one."""

    def __init__(self, sources: Sources, make: Callable[[Bell], Readers]) -> None:
        self._sources = sources
        self._make = make
        self._bell = Bell()
        self._pools: dict[Drive, Readers] = {}  # of those that were read from
        self._wholes: dict[Job, _Whole] = {}
        self._whole_of: dict[Job, _Whole] = {}  # by the job that reads a part

    def submit(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            self._wholes[job] = _Whole(job)
        self._send((self._wholes[j], self._sources.parts(j.layer, j.expert)) for j in jobs)

    def promote(self, job: Job) -> None:
        whole = self._wholes.get(job)
        if whole is None:
            return
        for part_job, part in whole.parts.items():
            part_job.demanded = True
            self._pools[part.drive].promote(part_job)
        job.ahead = whole.begun or any(part_job.ahead for part_job in whole.parts)

    def withdraw(self, jobs: Collection[Job]) -> set[Job]:
        wholes = [self._wholes[job] for job in jobs if job in self._wholes]
        return {whole.job for whole in wholes if self._withdraw(whole)}

    def collect(self, timeout: float) -> list[Job]:
        end = time.monotonic() + timeout
        while not (finished := self._sweep()) and (left := end - time.monotonic()) > 0:
            self._bell.wait(min(left, _STEP_SECONDS))
        return finished

    def quiesce(self) -> list[Job]:
        finished = []
        for pool in self._pools.values():
            for part_job in pool.quiesce():
                if whole := self._arrived(part_job, may_go_on=False):
                    finished.append(whole)
        self._wholes.clear()
        self._whole_of.clear()
        return finished

    def close(self) -> None:
        for pool in self._pools.values():
            pool.close()
        self._wholes.clear()
        self._whole_of.clear()

    def _send(self, pairs: Pairs) -> None:
        queues: dict[Drive, list[Job]] = {}
        for whole, parts in pairs:
            for part in parts:
                job = whole.job
                part_job = Job(
                    job.layer, job.expert, part.spans, job.slot, job.finish, job.ahead, job.demanded
                )
                whole.parts[part_job] = part
                self._whole_of[part_job] = whole
                queues.setdefault(part.drive, []).append(part_job)
        for drive, part_jobs in queues.items():
            if drive not in self._pools:
                self._pools[drive] = self._make(self._bell)
            self._pools[drive].submit(part_jobs)

    def _withdraw(self, whole: _Whole) -> bool:
        """All of its parts, or none: what has begun in part goes on."""
        forgotten: dict[Drive, list[Job]] = {}
        for part_job, part in whole.parts.items():
            if self._pools[part.drive].withdraw([part_job]):
                forgotten.setdefault(part.drive, []).append(part_job)
        if not whole.begun and sum(map(len, forgotten.values())) == len(whole.parts):
            for part_job in whole.parts:
                del self._whole_of[part_job]
            del self._wholes[whole.job]
            return True
        for drive, part_jobs in forgotten.items():
            self._pools[drive].submit(part_jobs)
        return False

    def _sweep(self) -> list[Job]:
        arrived = [part_job for pool in self._pools.values() for part_job in pool.collect(0)]
        return [job for part_job in arrived if (job := self._arrived(part_job))]

    def _arrived(self, part_job: Job, may_go_on: bool = True) -> Job | None:
        """The whole job, if that was the last of it. may_go_on: with more reads if one failed."""
        whole = self._whole_of.pop(part_job)
        part = whole.parts.pop(part_job)
        job = whole.job
        job.nbytes += part_job.nbytes
        job.seconds += part_job.seconds
        part.drive.nbytes += part_job.nbytes
        if part_job.error is None:
            whole.arrived.add(part.drive)
        elif not (may_go_on and self._read_elsewhere(whole, part, part_job.error)):
            job.error = job.error or part_job.error
        if whole.parts:
            return None
        if job.error is None:
            check(job)
            if job.error is not None and may_go_on and self._read_again(whole):
                return None
            if job.error is None and whole.wrong:
                self._blame(whole.suspects - whole.arrived, _damaged(job))
        del self._wholes[job]
        return job

    def _read_elsewhere(self, whole: _Whole, part: Part, error: Exception) -> bool:
        """A part could not be read: it is, from another copy, if there is one."""
        whole.unreadable.add(part.drive)
        for copy in self._sources.copies(whole.job.layer, whole.job.expert):
            parts = self._sources.same(part, copy)
            if not whole.unreadable.intersection(other.drive for other in parts):
                self._blame({part.drive}, error)
                self._send([(whole, parts)])
                return True
        return False

    def _read_again(self, whole: _Whole) -> bool:
        """The bytes are wrong: all are read once more, from one copy that was not yet tried alone.

        Which drive had the wrong ones is known when it was read alone, or another one was right.
        """
        if not whole.wrong:
            whole.wrong, whole.suspects = True, set(whole.arrived)
            whole.left = self._sources.copies(whole.job.layer, whole.job.expert)
        if len(whole.arrived) == 1:
            self._blame(whole.arrived, _damaged(whole.job))
            whole.suspects -= whole.arrived
            whole.left = [copy for copy in whole.left if copy.drive not in whole.arrived]
        if not whole.left:
            return False
        whole.job.error, whole.arrived = None, set()
        self._send([(whole, self._sources.whole(whole.left.pop(0)))])
        return True

    def _blame(self, drives: Iterable[Drive], error: Exception) -> None:
        for drive in drives:
            self._sources.failed(drive, error)


def _damaged(job: Job) -> ContainerError:
    return ContainerError(f"expert {job.expert} of layer {job.layer} is damaged here")

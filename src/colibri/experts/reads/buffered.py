"""Readers that read into a few buffers: for experts whose slots cannot take them as they are."""

from bisect import insort
from collections import deque
from collections.abc import Callable, Collection, Sequence

from colibri.experts.reads.job import Job, Readers


class BufferedReaders:
    """Gives each job a buffer for as long as it is on its way; the others wait for theirs.

    finish is called with each job read, while it has its buffer: it checks the bytes and moves them
    to where they belong. Reads ahead get half of the buffers at most, so that demands find some.
    buffers: two at least, each large enough for any job.
    """

    def __init__(
        self, inner: Readers, buffers: Sequence[memoryview], finish: Callable[[Job], None]
    ) -> None:
        assert len(buffers) >= 2
        self._inner = inner
        self._finish = finish
        self._buffers = tuple(buffers)
        self._free = list(buffers)
        self._demanded: deque[Job] = deque()
        self._ahead: list[Job] = []
        self._sent: dict[Job, memoryview] = {}

    def submit(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            if job.demanded:
                self._demanded.append(job)
            else:
                insort(self._ahead, job, key=_layer)
        self._send()

    def promote(self, job: Job) -> None:
        if job not in self._ahead:
            self._inner.promote(job)
            return
        self._ahead.remove(job)
        job.ahead = False
        self._demanded.append(job)
        self._send()

    def withdraw(self, jobs: Collection[Job]) -> set[Job]:
        forgotten = set(jobs).intersection(self._ahead)
        self._ahead = [job for job in self._ahead if job not in forgotten]
        unread = self._inner.withdraw([job for job in jobs if job in self._sent])
        self._release(unread)
        return forgotten | unread

    def collect(self, timeout: float) -> list[Job]:
        jobs = self._inner.collect(timeout)
        for job in jobs:
            self._finish(job)
        self._release(jobs)
        return jobs

    def quiesce(self) -> list[Job]:
        self._demanded.clear()
        self._ahead.clear()
        jobs = self._inner.quiesce()
        for job in jobs:
            self._finish(job)
        self._sent.clear()
        self._free = list(self._buffers)
        return jobs

    def close(self) -> None:
        self._inner.close()
        self._demanded.clear()
        self._ahead.clear()
        self._sent.clear()

    def _release(self, jobs: Collection[Job]) -> None:
        self._free += [self._sent.pop(job) for job in jobs]
        self._send()

    def _send(self) -> None:
        """What has a buffer goes to the readers."""
        jobs = []
        while self._free and (job := self._next()) is not None:
            buffer = self._sent[job] = self._free.pop()
            last = job.spans[-1]
            job.slot = buffer[: last.slot_offset + last.nbytes]
            jobs.append(job)
        if jobs:
            self._inner.submit(jobs)

    def _next(self) -> Job | None:
        if self._demanded:
            return self._demanded.popleft()
        ahead = sum(not job.demanded for job in self._sent)
        return self._ahead.pop(0) if self._ahead and ahead < len(self._buffers) // 2 else None


def _layer(job: Job) -> int:
    return job.layer

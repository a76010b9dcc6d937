"""Readers in native threads, which never wait for the interpreter."""

import os
from collections.abc import Collection, Sequence

from colibri import _native
from colibri.errors import ReadError
from colibri.experts.reads.files import ExpertFiles
from colibri.experts.reads.job import Job
from colibri.experts.reads.threads import PythonReaders

PIECE_BYTES = 4 << 20  # smaller ones cost bandwidth; large experts should not land all together
_STEP_SECONDS = 0.05  # waits go in steps, so that Ctrl-C is seen
_CAREFUL_SECONDS = 0.002  # between looks while a failed read is tried again


class NativeReaders:
    """The native threads read; a job they could not read is read again, from its beginning, by a
    thread in Python that knows what to do about errors. Files are opened as jobs are submitted."""

    def __init__(
        self,
        readers: int,
        files: ExpertFiles,
        piece_bytes: int = PIECE_BYTES,
        bell: _native.Bell | None = None,
    ) -> None:
        """bell: rung whenever a job has been read."""
        self._files = files
        self._bell = bell
        self._native = _native.Readers(readers, piece_bytes, bell)
        self._jobs: dict[int, Job] = {}  # with the native readers, by tag
        self._unopened: list[Job] = []  # until collected
        self._careful: PythonReaders | None = None  # started at the first error
        self._again = 0  # jobs with it

    def submit(self, jobs: Sequence[Job]) -> None:
        readable = []
        for job in jobs:
            try:
                spans = [self._span(job, i) for i in range(len(job.spans))]
            except ReadError as error:
                job.error = error
                self._unopened.append(job)
                continue
            tag = id(job)
            self._jobs[tag] = job
            readable.append((tag, -1 if job.demanded else job.layer, job.slot, spans))
        self._native.submit(readable)

    def promote(self, job: Job) -> None:
        if self._native.promote(id(job)):
            job.ahead = False

    def withdraw(self, jobs: Collection[Job]) -> set[Job]:
        if not jobs:
            return set()
        return {self._jobs.pop(tag) for tag in self._native.withdraw([id(job) for job in jobs])}

    def collect(self, timeout: float) -> list[Job]:
        unopened, self._unopened = self._unopened, []
        wait = 0 if unopened else min(timeout, _CAREFUL_SECONDS) if self._again else timeout
        return unopened + self._sort(self._native.collect(wait)) + self._read_again()

    def quiesce(self) -> list[Job]:
        while (results := self._native.quiesce(_STEP_SECONDS)) is None:
            pass
        finished = [self._read(*result[:3]) for result in results if not result[3]]
        self._jobs.clear()
        self._unopened.clear()
        if self._careful is not None:
            finished += self._careful.quiesce()
        self._again = 0
        return finished

    def close(self) -> None:
        self._native.close()
        self._jobs.clear()
        if self._careful is not None:
            self._careful.close()

    def _span(self, job: Job, index: int) -> tuple[int, bool, int, int, int, int]:
        span = job.spans[index]
        descriptor, is_direct = self._files.of(span).descriptor()
        return descriptor, is_direct, span.offset, span.nbytes, span.needed, span.slot_offset

    def _sort(self, results: list[tuple[int, int, float, int]]) -> list[Job]:
        """Those of the results that are good; the others are read again."""
        good = []
        for tag, nbytes, seconds, error in results:
            if not error:
                good.append(self._read(tag, nbytes, seconds))
                continue
            self._careful = self._careful or PythonReaders(1, self._files, os.preadv, self._bell)
            self._careful.submit([self._read(tag, 0, seconds)])
            self._again += 1
        return good

    def _read(self, tag: int, nbytes: int, seconds: float) -> Job:
        job = self._jobs.pop(tag)
        job.nbytes, job.seconds = nbytes, seconds
        return job

    def _read_again(self) -> list[Job]:
        if self._careful is None or not self._again:
            return []
        jobs = self._careful.collect(0)
        self._again -= len(jobs)
        return jobs

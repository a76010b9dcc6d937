"""Readers in Python: slower than the native ones, but any read function and the careful way."""

import threading
import time
from bisect import insort
from collections import deque
from collections.abc import Collection, Sequence

from colibri._native import Bell
from colibri.experts.base import ReadFunction
from colibri.experts.reads.files import ExpertFiles
from colibri.experts.reads.job import Job
from colibri.experts.reads.span import read_span


class PythonReaders:
    """Readers that complete short reads and try failed ones again. read: as os.preadv. bell: rung
    whenever a job has been read."""

    def __init__(
        self, readers: int, files: ExpertFiles, read: ReadFunction, bell: Bell | None = None
    ) -> None:
        self._files = files
        self._read = read
        self._bell = bell
        lock = threading.Lock()  # guards all below; held for moments only
        self._work = threading.Condition(lock)
        self._done = threading.Condition(lock)
        self._waiting: deque[Job] = deque()
        self._ahead: list[Job] = []
        self._finished: list[Job] = []
        self._busy = self._busy_ahead = 0
        # Two at least: a single read ahead at a time leaves most disks half idle.
        self._most_ahead = max(2, readers - 1)
        self._closed = False
        self._threads = [
            threading.Thread(target=self._serve, name=f"expert-reader-{i}", daemon=True)
            for i in range(readers)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, jobs: Sequence[Job]) -> None:
        with self._work:
            for job in jobs:
                if job.demanded:
                    self._waiting.append(job)
                else:
                    insort(self._ahead, job, key=_layer)
            self._work.notify(len(jobs))

    def promote(self, job: Job) -> None:
        with self._work:
            if job in self._ahead:
                self._ahead.remove(job)
                job.ahead = False
                self._waiting.append(job)
                self._work.notify()

    def withdraw(self, jobs: Collection[Job]) -> set[Job]:
        with self._work:
            forgotten = set(jobs).intersection(self._ahead)
            self._ahead = [job for job in self._ahead if job not in forgotten]
            return forgotten

    def collect(self, timeout: float) -> list[Job]:
        with self._done:
            if not self._finished and timeout > 0:
                self._done.wait(timeout)
            finished, self._finished = self._finished, []
            return finished

    def quiesce(self) -> list[Job]:
        with self._done:
            self._waiting.clear()
            self._ahead.clear()
            while self._busy:
                self._done.wait(0.05)  # in steps, so that Ctrl-C is seen
            finished, self._finished = self._finished, []
            return finished

    def close(self) -> None:
        with self._work:
            self._waiting.clear()
            self._ahead.clear()
            self._closed = True
            self._work.notify_all()
        for thread in self._threads:
            thread.join()

    def _serve(self) -> None:
        while (job := self._next()) is not None:
            self._load(job)
            with self._done:
                self._busy -= 1
                self._busy_ahead -= job.ahead
                self._finished.append(job)
                self._done.notify()
            if self._bell is not None:
                self._bell.ring()

    def _next(self) -> Job | None:
        with self._work:
            while not (job := self._first()) and not self._closed:
                self._work.wait()
            if self._closed or job is None:
                return None
            self._busy += 1
            self._busy_ahead += job.ahead
            return job

    def _first(self) -> Job | None:
        if self._waiting:
            return self._waiting.popleft()
        if self._ahead and self._busy_ahead < self._most_ahead:
            return self._ahead.pop(0)
        return None

    def _load(self, job: Job) -> None:
        start = time.perf_counter()
        try:
            for span in job.spans:
                file = self._files.of(span)
                job.nbytes += read_span(self._read, file, span, job.slot, job.layer, job.expert)
        except Exception as error:  # not handled here: carried to the thread that asked
            job.error = error
        job.seconds += time.perf_counter() - start


def _layer(job: Job) -> int:
    return job.layer

"""Reads experts into their slots on a few threads; the thread that runs the model never reads."""

import threading
import time
from bisect import insort
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from colibri.container.layerexperts import Span
from colibri.experts.base import Multipliers, ReadFunction
from colibri.experts.files import DirectMode, ExpertFiles
from colibri.experts.reading import read_span


@dataclass(eq=False, slots=True)
class Job:
    """One expert on its way from disk into a slot, which is the loader's until collected.

    finish runs on the reader once the bytes are there: it checks them and knows the multipliers.
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
    seconds: float = 0.0
    error: Exception | None = None


class Loader:
    """A bounded pool of reader threads, whose other methods are for one thread.

    Demanded jobs go first, in the order given; then those read ahead, nearest layer first, which
    leave a reader free for the next demand. read: as os.preadv; the test kit puts its faults here.
    """

    def __init__(self, readers: int, read: ReadFunction, direct: DirectMode = "auto") -> None:
        self._read = read
        self._files = ExpertFiles(direct)
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

    @property
    def direct(self) -> bool:
        return self._files.direct

    def submit(self, job: Job) -> None:
        with self._work:
            if job.demanded:
                self._waiting.append(job)
            else:
                insort(self._ahead, job, key=_layer)
            self._work.notify()

    def promote(self, job: Job) -> None:
        """From now on the job is demanded. It may be waiting, in flight or finished."""
        with self._work:
            job.demanded = True
            if job in self._ahead:
                self._ahead.remove(job)
                job.ahead = False  # it comes to nothing more than a demand
                self._waiting.append(job)
                self._work.notify()

    def withdraw(self, jobs: Iterable[Job]) -> set[Job]:
        """Forgets those of the jobs read ahead that have not begun, and returns them."""
        with self._work:
            forgotten = set(jobs).intersection(self._ahead)
            self._ahead = [job for job in self._ahead if job not in forgotten]
            return forgotten

    def collect(self, timeout: float) -> list[Job]:
        """The jobs that have finished, well or badly; waits at most `timeout` for the first."""
        with self._done:
            if not self._finished and timeout > 0:
                self._done.wait(timeout)
            finished, self._finished = self._finished, []
            return finished

    def quiesce(self) -> list[Job]:
        """Forgets the jobs that have not begun, waits for the others; those that finished.

        Afterwards no reader touches any slot. May be called again if interrupted.
        """
        with self._done:
            self._waiting.clear()
            self._ahead.clear()
            while self._busy:
                self._done.wait(0.05)  # in steps, so that Ctrl-C is seen
            finished, self._finished = self._finished, []
            return finished

    def close(self) -> None:
        """Ends the threads after the reads in progress, and closes the files."""
        with self._work:
            self._waiting.clear()
            self._ahead.clear()
            self._closed = True
            self._work.notify_all()
        for thread in self._threads:
            thread.join()
        self._files.close()

    def _serve(self) -> None:
        while (job := self._next()) is not None:
            self._load(job)
            with self._done:
                self._busy -= 1
                self._busy_ahead -= job.ahead
                self._finished.append(job)
                self._done.notify()

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
                file = self._files.open(span.file)
                job.nbytes += read_span(self._read, file, span, job.slot, job.layer, job.expert)
            job.multipliers = job.finish(job.slot)
        except Exception as error:  # not handled here: carried to the thread that asked
            job.error = error
        job.seconds = time.perf_counter() - start


def _layer(job: Job) -> int:
    return job.layer

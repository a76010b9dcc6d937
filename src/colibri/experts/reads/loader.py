"""Reads experts into their slots on a few threads; the thread that runs the model never reads."""

from collections.abc import Collection, Sequence

from colibri._native import Bell
from colibri.config.choices import AutoOnOff
from colibri.experts.base import ReadFunction
from colibri.experts.reads.buffered import BufferedReaders
from colibri.experts.reads.files import ExpertFiles
from colibri.experts.reads.job import Job, Readers, check
from colibri.experts.reads.native import NativeReaders
from colibri.experts.reads.sources import Sources
from colibri.experts.reads.striped import StripedReaders
from colibri.experts.reads.threads import PythonReaders


class Loader:
    """The files of a model and the readers of its experts. Its methods are for one thread.

    read: as os.preadv, called by readers in Python; the test kit puts its faults here. None: the
    native readers. sources: the drives to read from; None: the files that a job names. buffers:
    where experts land that do not stay as they are read; none: in their slots.
    """

    def __init__(
        self,
        readers: int,
        read: ReadFunction | None = None,
        direct: AutoOnOff = "auto",
        sources: Sources | None = None,
        buffers: Sequence[memoryview] = (),
    ) -> None:
        files = self._files = ExpertFiles(direct)
        self._checks = sources is None and not buffers

        def pool(bell: Bell | None) -> Readers:
            if read is None:
                return NativeReaders(readers, files, bell=bell)
            return PythonReaders(readers, files, read, bell)

        inner: Readers = pool(None) if sources is None else StripedReaders(sources, pool)
        self._readers = inner
        if buffers:
            finish = _check_read if sources is None else _checked_before
            self._readers = BufferedReaders(inner, buffers, finish)

    @property
    def direct(self) -> bool:
        return self._files.direct

    def submit(self, *jobs: Job) -> None:
        self._readers.submit(jobs)

    def promote(self, job: Job) -> None:
        """From now on the job is demanded. It may be waiting, in flight or finished."""
        job.demanded = True
        self._readers.promote(job)

    def withdraw(self, jobs: Collection[Job]) -> set[Job]:
        """Forgets those of the jobs read ahead that have not begun, and returns them."""
        return self._readers.withdraw(jobs)

    def collect(self, timeout: float) -> list[Job]:
        """The jobs that have finished, well or badly; waits at most `timeout` for the first."""
        return self._checked(self._readers.collect(timeout))

    def quiesce(self) -> list[Job]:
        """Forgets the jobs that have not begun, waits for the others; those that finished.

        Afterwards no reader touches any slot. May be called again if interrupted.
        """
        return self._checked(self._readers.quiesce())

    def close(self) -> None:
        """Ends the threads after the reads in progress, and closes the files."""
        self._readers.close()
        self._files.close()

    def _checked(self, jobs: list[Job]) -> list[Job]:
        if self._checks:
            for job in jobs:
                _check_read(job)
        return jobs


def _check_read(job: Job) -> None:
    if job.error is None:
        check(job)


def _checked_before(job: Job) -> None:
    """Striped readers check what they read."""

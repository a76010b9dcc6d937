"""Reads experts into their slots on a few threads; the thread that runs the model never reads."""

from collections.abc import Collection, Iterable

from colibri.experts.base import ReadFunction
from colibri.experts.files import DirectMode, ExpertFiles
from colibri.experts.job import Job, Readers
from colibri.experts.native import NativeReaders
from colibri.experts.threads import PythonReaders


class Loader:
    """The files of a model and the readers of its experts. Its methods are for one thread.

    read: as os.preadv, called by readers in Python; the test kit puts its faults here. None: the
    native readers.
    """

    def __init__(
        self, readers: int, read: ReadFunction | None = None, direct: DirectMode = "auto"
    ) -> None:
        self._files = ExpertFiles(direct)
        self._readers: Readers = (
            NativeReaders(readers, self._files)
            if read is None
            else PythonReaders(readers, self._files, read)
        )

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
        return _finish(self._readers.collect(timeout))

    def quiesce(self) -> list[Job]:
        """Forgets the jobs that have not begun, waits for the others; those that finished.

        Afterwards no reader touches any slot. May be called again if interrupted.
        """
        return _finish(self._readers.quiesce())

    def close(self) -> None:
        """Ends the threads after the reads in progress, and closes the files."""
        self._readers.close()
        self._files.close()


def _finish(jobs: Iterable[Job]) -> list[Job]:
    finished = list(jobs)
    for job in finished:
        if job.error is None:
            try:
                job.multipliers = job.finish(job.slot)
            except Exception as error:  # goes with the job to whoever waits for it
                job.error = error
    return finished

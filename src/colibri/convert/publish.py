"""The last steps of an output, while the next one is being made: durable, read back, named,
journaled."""

from __future__ import annotations

import contextlib
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Self

from colibri.container.writer import FileWriter
from colibri.convert.journal import Journal, record, save_journal
from colibri.convert.progress import Meter


class Publisher:
    """Publishes one output at a time, in order, in a thread of its own; a context manager.

    The journal is the thread's until `wait` returns. Leaving the context waits for the output that
    is under way, so an error elsewhere does not throw its work away.
    """

    def __init__(self, destination: Path, journal: Journal, meter: Meter) -> None:
        self._destination, self._journal, self._meter = destination, journal, meter
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="coli-publish")
        self._last: Future[None] | None = None
        self._names: list[str] = []

    def submit(self, writer: FileWriter, name: str, multipliers: dict[str, float]) -> None:
        """Take over a filled writer. Raises what went wrong with the output before."""
        with contextlib.ExitStack() as stack:
            stack.callback(writer.close)
            self.wait()
            stack.pop_all()
        self._names.append(name)
        self._last = self._pool.submit(self._publish, writer, name, multipliers)

    def wait(self) -> list[str]:
        """The names published so far, all that were submitted; raises what went wrong."""
        if self._last is not None:
            last, self._last = self._last, None
            last.result()
        return self._names

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._pool.shutdown()

    def _publish(self, writer: FileWriter, name: str, multipliers: dict[str, float]) -> None:
        with contextlib.closing(writer):
            written = writer.publish(self._meter.check)
        record(self._journal, name, written, multipliers)
        save_journal(self._destination, self._journal)

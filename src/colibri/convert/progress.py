"""How far a conversion is, in bytes of the source."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from colibri.errors import Cancelled

_INTERVAL_SECONDS = 0.2

Phase = Literal["copy", "trunk", "experts", "finished", "already finished"]


@dataclass(frozen=True)
class ConvertProgress:
    """`seconds`, `bytes_per_second` and `bytes_written` are this run's; bytes done before a resume
    count as done."""

    phase: Phase
    file: str  # the output being written
    bytes_done: int
    bytes_total: int
    seconds: float
    bytes_per_second: float
    eta_seconds: float | None  # None until a rate is known
    bytes_written: int = 0


Report = Callable[[ConvertProgress], None]


class Meter:
    """Reports progress at most five times a second, and asks whether to stop."""

    def __init__(
        self, total: int, done: int, report: Report | None, cancelled: Callable[[], bool]
    ) -> None:
        self._total = total
        self._before = done
        self._report = report
        self._cancelled = cancelled
        self._start = time.monotonic()
        self._last = self._start
        self._phase: Phase = "copy"
        self._file = ""
        self._base = done  # of the source, before the current file
        self._source_bytes = 0  # that go into the current file
        self._size, self._written = 1, 0  # of the current file
        self._written_before = 0  # to the files before it

    def begin(self, phase: Phase, file: str, source_bytes: int = 0, size: int = 1) -> None:
        """An output of `size` bytes, made of `source_bytes` of the source, is to be written."""
        self._base += self._source_bytes
        self._written_before += self._written
        self._phase, self._file = phase, file
        self._source_bytes, self._size, self._written = source_bytes, size, 0
        self._emit()

    def step(self, written: int) -> None:
        """`written` more bytes are on their way; raises Cancelled when asked to stop."""
        self.check()
        self._written += written
        if time.monotonic() - self._last >= _INTERVAL_SECONDS:
            self._emit()

    def check(self, _written: int = 0) -> None:
        """Raises Cancelled when asked to stop; for any thread."""
        if self._cancelled():
            raise Cancelled(
                "conversion stopped; finished files are kept, run the same command to continue"
            )

    def _emit(self) -> None:
        self._last = time.monotonic()
        if self._report is None:
            return
        done = self._base + self._source_bytes * min(self._written, self._size) // self._size
        seconds = self._last - self._start
        rate = (done - self._before) / seconds if seconds > 0 else 0.0
        eta = (self._total - done) / rate if rate > 0 else None
        written = self._written_before + self._written
        self._report(
            ConvertProgress(self._phase, self._file, done, self._total, seconds, rate, eta, written)
        )

"""Ctrl-C for work that is better stopped at a good point than anywhere."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event
from types import FrameType


@contextmanager
def stop_on_interrupt() -> Iterator[Event]:
    """The first Ctrl-C sets the event: please stop at a good point. The second insists."""
    stop = Event()

    def interrupted(_signal: int, _frame: FrameType | None) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    before = signal.signal(signal.SIGINT, interrupted)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)

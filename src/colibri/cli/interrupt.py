"""Ctrl-C for work that is better stopped at a good point than anywhere, and SIGTERM for all."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event
from types import FrameType

TERMINATED = 143  # as a shell reports a program that SIGTERM ended


class Terminated(KeyboardInterrupt):
    """SIGTERM: as Ctrl-C to whatever runs, and then the end."""


def end_on_sigterm() -> None:
    """The kernel keeps SIGTERM from the first process of a container unless it is handled. The
    first one cleans up, a second does not wait. One that is ignored stays so."""
    if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        return

    def terminated(number: int, _frame: FrameType | None) -> None:
        signal.signal(number, lambda *_: os._exit(TERMINATED))
        raise Terminated

    signal.signal(signal.SIGTERM, terminated)


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

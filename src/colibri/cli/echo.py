"""What is typed while something else is drawn on the terminal: not echoed into it, and not lost."""

from __future__ import annotations

import os
import signal
import termios
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO

LFLAG = 3  # its place in what tcgetattr() returns


@contextmanager
def no_echo(stream: TextIO) -> Iterator[None]:
    """What is typed meanwhile waits for whoever reads next, the shell included. Nothing is changed
    for a process in the background, which a change would stop, nor outside the main thread, which
    alone hears of a suspension."""
    if threading.current_thread() is not threading.main_thread() or not _in_foreground(stream):
        yield
        return
    descriptor = stream.fileno()
    found = termios.tcgetattr(descriptor)

    def silence() -> None:
        if _in_foreground(stream):
            mode: list[Any] = termios.tcgetattr(descriptor)
            mode[LFLAG] &= ~termios.ECHO
            termios.tcsetattr(descriptor, termios.TCSANOW, mode)

    def restore() -> None:
        if _in_foreground(stream):
            with suppress(termios.error):  # the terminal is gone
                termios.tcsetattr(descriptor, termios.TCSANOW, found)

    with suspending(restore, silence):
        try:
            silence()
            yield
        finally:
            restore()


@contextmanager
def suspending(before: Callable[[], None], after: Callable[[], None]) -> Iterator[None]:
    """What is done around the time for which Ctrl-Z suspends the program."""
    if signal.getsignal(signal.SIGTSTP) is not signal.SIG_DFL:
        yield
        return

    def suspend(*_: object) -> None:
        before()
        os.kill(os.getpid(), signal.SIGSTOP)  # and here it goes on
        after()

    signal.signal(signal.SIGTSTP, suspend)
    try:
        yield
    finally:
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)


def _in_foreground(stream: TextIO) -> bool:
    try:
        return os.tcgetpgrp(stream.fileno()) == os.getpgrp()
    except (OSError, ValueError):  # no terminal, or not this process's
        return False

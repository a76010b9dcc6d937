"""Work that dies by SIGKILL before its n-th file operation, and then goes on, in children."""

from __future__ import annotations

import itertools
import json
import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

Work = Callable[[], Any]

OPERATIONS = ("write", "fsync", "replace", "unlink", "open", "mkdir")


def report_deaths(rounds: Callable[[int], dict[str, Any]], stride: int) -> None:
    """A JSON line of rounds(n) for each n, until one says that nothing was killed. The process must
    have no other threads: children are forked."""
    os.fsync = _no_fsync
    for n in itertools.count(0, stride):
        state = rounds(n)
        print(json.dumps(state), flush=True)
        if not state["killed"]:
            return


def dies(n: int, work: Work) -> bool:
    """Does the work in a child that kills itself before its n-th operation, half-way through it if
    it is a write. True if it came to that, or failed."""
    return fails(lambda: _mortal(itertools.count(n, -1), work))


def fails(work: Work) -> bool:
    """Does the work in a child; True if that died or failed."""
    pid = os.fork()
    if pid == 0:
        work()
        os._exit(0)
    return os.waitpid(pid, 0)[1] != 0


def _no_fsync(fd: int) -> None:
    """What a killed process has written stays in the page cache: no need to wait for the disk."""


def _mortal(left: Iterator[int], work: Work) -> None:
    for name in OPERATIONS:
        setattr(os, name, _counted(getattr(os, name), left))
    work()


def _counted(operation: Callable[..., Any], left: Iterator[int]) -> Callable[..., Any]:
    write, opening = os.write, os.open

    def call(*args: Any, **kwargs: Any) -> Any:
        reads = operation is opening and not args[1] & os.O_WRONLY
        if not reads and next(left) == 0:
            if operation is write:
                write(args[0], args[1][: len(args[1]) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        return operation(*args, **kwargs)

    return call

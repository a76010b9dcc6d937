"""A program: stagings that die by SIGKILL before their n-th file operation, then go on.

usage: dying_stages.py MODEL WORK STRIDE

For each n a child stages a mirror and kills itself there, half-way through the write if the
operation is one; a second child runs the same to its end. One JSON line per n says what lay on the
disk after each. Children are forked before any thread exists.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mirror_kit import stage, tree

OPERATIONS = ("write", "fsync", "replace", "unlink", "open", "mkdir")


def main(model: Path, work: Path, stride: int) -> None:
    os.fsync = lambda fd: None
    for n in itertools.count(0, stride):
        target = work / str(n)
        killed = in_child(lambda n=n, target=target: die(n, model, target))
        before = tree(target) if target.exists() else {}
        failed = in_child(lambda target=target: run(model, target))
        state = {"killed": killed, "before": before, "failed": failed, "after": tree(target)}
        print(json.dumps(state), flush=True)
        if not killed:
            return


def run(model: Path, target: Path) -> None:
    stage(model, target, file_bytes=1 << 17)


def die(n: int, model: Path, target: Path) -> None:
    left = itertools.count(n, -1)
    for name in OPERATIONS:
        setattr(os, name, counted(getattr(os, name), left))
    run(model, target)


def counted(operation: Callable[..., Any], left: itertools.count[int]) -> Callable[..., Any]:
    write, opening = os.write, os.open

    def call(*args: Any, **kwargs: Any) -> Any:
        reads = operation is opening and not args[1] & os.O_WRONLY
        if not reads and next(left) == 0:
            if operation is write:
                write(args[0], args[1][: len(args[1]) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        return operation(*args, **kwargs)

    return call


def in_child(work: Callable[[], None]) -> bool:
    """True if the child died or failed."""
    pid = os.fork()
    if pid == 0:
        work()
        os._exit(0)
    return os.waitpid(pid, 0)[1] != 0


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))

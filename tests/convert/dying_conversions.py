"""A program: conversions that die by SIGKILL before their n-th file operation, then go on.

usage: dying_conversions.py CHECKPOINT WORK plain|delete|force STRIDE

For each n a child converts a copy of the checkpoint and kills itself there, half-way through the
write if the operation is one; a second child runs the same conversion to its end. One JSON line per
n says what lay on the disk after each. Children are forked before any thread exists.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from convert_kit import Model, tree

from colibri.container.jsonfile import read_json
from colibri.container.weights import WeightMap
from colibri.convert import convert
from colibri.models.registry import family_for

OPERATIONS = ("write", "fsync", "replace", "unlink", "open")


def main(checkpoint: Path, work: Path, mode: str, stride: int) -> None:
    os.fsync = no_fsync
    for n in itertools.count(0, stride):
        state = die_and_resume(checkpoint, work, mode, n)
        print(json.dumps(state), flush=True)
        if not state["killed"]:
            return


def die_and_resume(checkpoint: Path, work: Path, mode: str, n: int) -> dict[str, Any]:
    shutil.rmtree(work, ignore_errors=True)
    source, destination = work / "source", work / "out"
    shutil.copytree(checkpoint, source)
    if mode == "force":
        in_child(lambda: run(source, destination, scheme="int8-gs64"))
    options = {"delete_source": mode == "delete", "force": mode == "force"}
    killed = in_child(lambda: die(n, source, destination, options))
    before = seen(source, destination)
    failed = in_child(lambda: run(source, destination, **options))
    after = seen(source, destination)
    return {"n": n, "killed": killed, "before": before, "failed": failed, "after": after}


def no_fsync(fd: int) -> None:
    """What a killed process has written stays in the page cache: no need to wait for the disk."""


def die(n: int, source: Path, destination: Path, options: dict[str, Any]) -> None:
    left = itertools.count(n, -1)
    for name in OPERATIONS:
        setattr(os, name, counted(getattr(os, name), left))
    run(source, destination, **options)


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


def run(source: Path, destination: Path, **options: Any) -> None:
    family, weights = kind(source)
    convert(source, destination, weights=weights, family=family, **options)


def kind(source: Path) -> tuple[str, WeightMap]:
    """The toy of these tests, or a real family."""
    config = read_json(source / "config.json")
    if config["model_type"] == "toy":
        return "toy", Model().weights
    family = family_for(config)
    return family.name, family.weights_of(config)


def seen(source: Path, destination: Path) -> dict[str, Any]:
    return {
        "source": sorted(p.name for p in source.glob("*.safetensors")),
        "out": tree(destination) if destination.exists() else {},
    }


def in_child(work: Callable[[], None]) -> bool:
    """True if the child died or failed."""
    pid = os.fork()
    if pid == 0:
        work()
        os._exit(0)
    return os.waitpid(pid, 0)[1] != 0


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]))

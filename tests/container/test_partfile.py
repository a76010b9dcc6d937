from __future__ import annotations

import errno
import fcntl
import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from colibri.container import partfile
from colibri.container.direct import PAGE
from colibri.container.partfile import PartFile
from colibri.container.writer import write_file
from colibri.errors import ContainerError

PIECE = 2 * PAGE
DATA = np.random.default_rng(1).integers(0, 256, 9 * PIECE + 77, np.uint8)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partfile, "PIECE_BYTES", PIECE)
    monkeypatch.setattr(partfile, "_DIRECT_FROM_BYTES", 1)


def nothing(written: int) -> None:
    pass


def written(path: Path, size: int = len(DATA), chunk: int = 5000) -> str:
    file = PartFile(path, size)
    try:
        for start in range(0, size, chunk):
            file.write(DATA[start : min(start + chunk, size)], nothing)
        digest = file.finish(nothing)
        file.sync()
        assert file.size == size
        assert file.is_as_written(nothing)
    finally:
        file.close()
    return digest


def assert_written(path: Path, size: int = len(DATA), chunk: int = 5000) -> None:
    digest = written(path, size, chunk)
    assert path.read_bytes() == DATA[:size].tobytes()
    assert digest == hashlib.sha256(DATA[:size]).hexdigest()


@pytest.mark.parametrize("size", [0, 1, PAGE, PIECE - 1, PIECE, PIECE + 1, 5 * PIECE, len(DATA)])
@pytest.mark.parametrize("chunk", [999, PAGE, 3 * PIECE + 5])
def test_any_size_in_any_chunks(tmp_path: Path, size: int, chunk: int) -> None:
    assert_written(tmp_path / "a", size, chunk)


def test_steps_tell_every_byte(tmp_path: Path) -> None:
    steps: list[int] = []
    file = PartFile(tmp_path / "a", len(DATA))
    file.write(DATA, steps.append)
    file.finish(steps.append)
    file.close()
    assert sum(steps) == len(DATA)
    assert max(steps) == PIECE


def is_direct(fd: int) -> bool:
    return bool(fcntl.fcntl(fd, fcntl.F_GETFL) & partfile._DIRECT)


def rewritten(
    monkeypatch: pytest.MonkeyPatch, answer: Callable[[int, memoryview], int]
) -> list[bool]:
    """os.write writes the first answer(calls so far, data) bytes; whether each was direct."""
    write = os.write
    calls: list[bool] = []

    def call(fd: int, data: memoryview) -> int:
        calls.append(is_direct(fd))
        return write(fd, data[: answer(len(calls), data)])

    monkeypatch.setattr(os, "write", call)
    return calls


def test_only_the_tail_goes_through_the_page_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = rewritten(monkeypatch, lambda n, data: len(data))
    assert_written(tmp_path / "a")
    if not calls[0]:
        pytest.skip("no direct writes here")
    assert calls == [True] * 9 + [False]


@pytest.mark.parametrize("first", [1, PAGE, PAGE + 100])
def test_short_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: int) -> None:
    def once(n: int, data: memoryview) -> int:
        return first if n == 2 else len(data)

    # What is no whole page can only be the end of a write that was not direct.
    if first % PAGE:
        monkeypatch.setattr(partfile, "_DIRECT_FROM_BYTES", 1 << 40)
    rewritten(monkeypatch, once)
    assert_written(tmp_path / "a")


@pytest.mark.parametrize("at", [1, 4])
def test_a_file_system_that_refuses_direct_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    def refuse(n: int, data: memoryview) -> int:
        if n == at:
            raise OSError(errno.EINVAL, "Invalid argument")
        return len(data)

    calls = rewritten(monkeypatch, refuse)
    if not partfile._DIRECT:
        pytest.skip("no direct writes here")
    assert_written(tmp_path / "a")
    assert not any(calls[at:])


def test_one_that_refuses_the_flag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = os.open

    def refuse(path: Path, flags: int, mode: int = 0o777) -> int:
        if flags & partfile._DIRECT:
            raise OSError(errno.EINVAL, "Invalid argument")
        return opened(path, flags, mode)

    monkeypatch.setattr(os, "open", refuse)
    assert_written(tmp_path / "a")


@pytest.mark.parametrize("place", [0, 3 * PIECE + 5, len(DATA) - 1])
def test_a_single_bit_that_the_disk_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: int
) -> None:
    fsync = os.fsync

    def sync_and_flip(fd: int) -> None:
        fsync(fd)
        with open(tmp_path / "a.part", "r+b") as file:
            file.seek(place)
            file.write(bytes([DATA[place] ^ 16]))

    monkeypatch.setattr(os, "fsync", sync_and_flip)
    with pytest.raises(ContainerError, match="a: what was read back differs"):
        write_file(tmp_path / "a", [DATA], len(DATA))
    assert os.listdir(tmp_path) == []

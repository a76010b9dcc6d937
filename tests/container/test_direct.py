from __future__ import annotations

import errno
import fcntl
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from colibri.container import direct
from colibri.container.direct import PAGE, DirectFiles, aligned
from colibri.errors import ContainerError
from colibri.hardware.descriptors import open_now

DATA = np.random.default_rng(1).integers(0, 256, 5 * PAGE + 123, np.uint8)
SPANS = [
    (0, 1),
    (0, PAGE),
    (1, PAGE),
    (PAGE - 1, 2),
    (7, 3 * PAGE),
    (0, len(DATA)),
    (5 * PAGE, 123),
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(DATA.tobytes())
    return path


@pytest.fixture(params=[1, 1 << 20], ids=["fresh", "copied"])
def small(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct, "_SMALL_BYTES", request.param)


def assert_reads(files: DirectFiles, path: Path) -> None:
    for offset, nbytes in SPANS:
        expected = DATA[offset : offset + nbytes]
        np.testing.assert_array_equal(files.borrow(path, offset, nbytes), expected)
        got = files.read(path, offset, nbytes)
        np.testing.assert_array_equal(got, expected)
        assert got.ctypes.data % 8 == 0
        place = np.zeros(nbytes, np.uint8)
        assert files.read(path, offset, nbytes, place) is place
        np.testing.assert_array_equal(place, expected)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("wanted", [True, False])
def test_any_span(path: Path, wanted: bool) -> None:
    files = DirectFiles(wanted)
    assert_reads(files, path)
    files.close()
    assert_reads(files, path)
    assert len(files.read(path, len(DATA), 0)) == 0


def test_memory_begins_at_a_page() -> None:
    for nbytes in (1, PAGE, 3 * PAGE + 5, 8 << 20):
        assert aligned(nbytes).ctypes.data % PAGE == 0
        assert len(aligned(nbytes)) == nbytes


def interrupted(monkeypatch: pytest.MonkeyPatch, answer: Callable[[int, int, int], int]) -> None:
    """os.preadv for direct descriptors answers (descriptor, bytes asked, calls so far)."""
    preadv = os.preadv
    calls = [0]

    def call(fd: int, buffers: Any, offset: int) -> int:
        if not _is_direct(fd):
            return preadv(fd, buffers, offset)
        calls[0] += 1
        n = answer(fd, len(buffers[0]), calls[0])
        return preadv(fd, [buffers[0][:n]], offset)

    monkeypatch.setattr(os, "preadv", call)


def _is_direct(fd: int) -> bool:
    return bool(fcntl.fcntl(fd, fcntl.F_GETFL) & direct._DIRECT)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("code", [errno.EINVAL, errno.EIO])
def test_a_refused_read_is_done_buffered(
    path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def refuse(fd: int, nbytes: int, calls: int) -> int:
        assert code != errno.EINVAL or calls == 1, "tried again what can never work"
        raise OSError(code, os.strerror(code))

    interrupted(monkeypatch, refuse)
    assert_reads(DirectFiles(), path)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("most", [1, 100, PAGE, PAGE + 1])
def test_short_reads_are_completed(path: Path, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    # A direct descriptor would refuse what is no whole page, so the shorter ones are for one that
    # is direct in name only.
    monkeypatch.setattr(direct, "_DIRECT", os.O_DIRECT if most == PAGE else os.O_NOATIME)
    interrupted(monkeypatch, lambda fd, nbytes, calls: min(nbytes, most))
    assert_reads(DirectFiles(), path)


def test_a_file_that_ends_early(path: Path) -> None:
    files = DirectFiles()
    files.read(path, 0, len(DATA))
    os.truncate(path, 2 * PAGE + 5)
    for read in (files.read, files.borrow):
        with pytest.raises(ContainerError, match=rf"file: ends at byte {2 * PAGE + 5}"):
            read(path, PAGE, 2 * PAGE)


def test_what_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(ContainerError, match="no such file"):
        DirectFiles().read(tmp_path / "nothing", 0, 1)
    with pytest.raises(ContainerError, match="is a directory"):
        DirectFiles().read(tmp_path, 0, 1)


def test_descriptors_are_kept_and_closed(path: Path) -> None:
    def count() -> int:
        return len(os.listdir("/proc/self/fd"))

    before = count()
    files = DirectFiles()
    for _ in range(5):
        files.read(path, 0, 1)
    assert before < count() <= before + 2
    files.close()
    assert count() == before
    files.read(path, 0, 1)
    del files
    assert count() == before


def test_threads_do_not_share_what_they_borrow(path: Path) -> None:
    files = DirectFiles()
    barrier = threading.Barrier(4)
    wrong = []

    def work(i: int) -> None:
        for k in range(20):
            offset = (i * 1000 + k * 37) % (4 * PAGE)
            got = files.borrow(path, offset, PAGE)
            barrier.wait()
            if not np.array_equal(got, DATA[offset : offset + PAGE]):
                wrong.append((i, k))
            barrier.wait()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_few_of_many_files_stay_open(tmp_path: Path) -> None:
    paths = [tmp_path / f"{i}" for i in range(3 * direct.MOST_OPEN)]
    for i, one in enumerate(paths):
        one.write_bytes(bytes([i]) * (PAGE + i))
    files, before = DirectFiles(), open_now()
    for _ in range(2):  # what was closed is opened again
        for i, one in enumerate(paths):
            assert files.read(one, i, PAGE).tobytes() == bytes([i]) * PAGE
            assert open_now() - before <= 2 * direct.MOST_OPEN
    assert open_now() - before >= direct.MOST_OPEN
    files.close()
    assert open_now() == before


def test_a_file_that_is_being_read_is_not_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(direct, "MOST_OPEN", 1)
    paths = [tmp_path / f"{i}" for i in range(8)]
    for i, one in enumerate(paths):
        one.write_bytes(bytes([i]) * 64 * PAGE)
    files = DirectFiles()

    def reads(start: int) -> bool:
        turns = [(start + n) % len(paths) for n in range(200)]
        return all(files.borrow(paths[i], n, PAGE)[0] == i for n, i in enumerate(turns))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(reads, range(4)))

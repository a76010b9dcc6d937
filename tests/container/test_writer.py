from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from colibri.container.header import read_header
from colibri.container.writer import OutTensor, shard_header, sync_directory, write_file
from colibri.errors import CapacityError, ContainerError


def names(directory: Path) -> list[str]:
    return sorted(os.listdir(directory))


def test_size_and_hash(tmp_path: Path) -> None:
    data = np.arange(10_000, dtype=np.uint8) * 3
    path = tmp_path / "a"
    written = write_file(path, [b"head", data, b""], 10_004)
    assert path.read_bytes() == b"head" + data.tobytes()
    assert written.size == 10_004
    assert written.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert names(tmp_path) == ["a"]


def test_order_of_operations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Data is durable before the name is, and checked before either."""
    done = []

    def watched(name: str) -> None:
        original = getattr(os, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            done.append(name)
            return original(*args, **kwargs)

        monkeypatch.setattr(os, name, call)

    for name in ("write", "fsync", "preadv", "replace"):
        watched(name)
    write_file(tmp_path / "a", [b"12345"], 5)
    assert [n for i, n in enumerate(done) if done[i - 1 : i] != [n]] == [
        "write",
        "fsync",
        "preadv",
        "replace",
        "fsync",
    ]


def test_short_writes_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[:7]))
    write_file(tmp_path / "a", [bytes(range(100))], 100)
    assert (tmp_path / "a").read_bytes() == bytes(range(100))


def fill_after(limit: int, monkeypatch: pytest.MonkeyPatch, code: int = errno.ENOSPC) -> None:
    """A disk that takes `limit` bytes and no more."""
    write = os.write
    left = [limit]

    def full(fd: int, data: memoryview) -> int:
        if not left[0]:
            raise OSError(code, os.strerror(code))
        done = write(fd, data[: left[0]])
        left[0] -= done
        return done

    monkeypatch.setattr(os, "write", full)


def test_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_bytes(b"old")
    monkeypatch.setattr("colibri.container.writer.free_bytes", lambda directory: 300)
    fill_after(300, monkeypatch)
    with pytest.raises(CapacityError, match=r"takes 1000 bytes, 300 are free, 700 .* missing"):
        write_file(tmp_path / "a", [bytes(1000)], 1000)
    assert names(tmp_path) == ["a"]
    assert (tmp_path / "a").read_bytes() == b"old"


def test_full_at_fsync_and_by_quota(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(fd: int) -> None:
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CapacityError, match="quota"):
        write_file(tmp_path / "a", [bytes(1000)], 1000)
    assert names(tmp_path) == []


def test_other_refusals_name_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill_after(10, monkeypatch, errno.EIO)
    with pytest.raises(ContainerError, match="weights: cannot be written: Input/output error"):
        write_file(tmp_path / "weights", [bytes(20)], 20)
    assert names(tmp_path) == []


def test_what_the_disk_changed_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write

    def flip(fd: int, data: memoryview) -> int:
        return write(fd, bytes(data[:-1]) + bytes([data[-1] ^ 1]))

    monkeypatch.setattr(os, "write", flip)
    with pytest.raises(ContainerError, match="read back differs"):
        write_file(tmp_path / "a", [bytes(100)], 100)
    assert names(tmp_path) == []


def test_a_wrong_size_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ContainerError, match="4 bytes written, 5 were planned"):
        write_file(tmp_path / "a", [b"1234"], 5)
    assert names(tmp_path) == []


def test_a_failing_producer_leaves_nothing(tmp_path: Path) -> None:
    def chunks() -> Iterator[bytes]:
        yield b"1234"
        raise ContainerError("bad source")

    with pytest.raises(ContainerError, match="bad source"):
        write_file(tmp_path / "a", chunks(), 8)
    assert names(tmp_path) == []


@pytest.mark.parametrize("count", [0, 1, 50])
def test_shard_header(tmp_path: Path, count: int) -> None:
    tensors = [OutTensor(f"{i}é", "F32", (i, 2), 8 * i) for i in range(count)]
    header = shard_header(tensors, {"k": "v"})
    assert len(header) % 4096 == 0
    size = len(header) + sum(t.nbytes for t in tensors)
    write_file(tmp_path / "a", [header, bytes(size - len(header))], size)
    found, metadata = read_header(tmp_path / "a")
    assert [(t.name, t.shape) for t in found.values()] == [(t.name, t.shape) for t in tensors]
    assert metadata == {"k": "v"}


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOTSUP])
def test_a_file_system_that_syncs_no_directories(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """CIFS and some of FUSE."""
    own = os.fsync

    def refusing(fd: int) -> None:
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            raise OSError(number, os.strerror(number))
        own(fd)

    monkeypatch.setattr(os, "fsync", refusing)
    sync_directory(tmp_path)
    number = errno.EIO
    with pytest.raises(OSError, match="Input/output"):
        sync_directory(tmp_path)

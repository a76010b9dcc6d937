import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from colibri.container.files import list_names, opened, read_range, shown
from colibri.errors import ContainerError, ReadError


def refusal(call: Callable[[], object]) -> str:
    with pytest.raises(ContainerError) as e:
        call()
    return str(e.value)


def read(path: Path) -> bytes:
    with opened(path) as (fd, size):
        return read_range(fd, path, 0, size)


def test_what_is_no_file_is_named(tmp_path: Path) -> None:
    pipe, loop, file = tmp_path / "pipe", tmp_path / "loop", tmp_path / "file"
    os.mkfifo(pipe)
    loop.symlink_to(loop)
    file.write_bytes(b"abc")
    assert "no such file" in refusal(lambda: read(tmp_path / "nothing"))
    assert "is a directory" in refusal(lambda: read(tmp_path))
    assert "no regular file" in refusal(lambda: read(pipe))
    assert "no regular file" in refusal(lambda: read(Path("/dev/zero")))
    assert "cannot be read" in refusal(lambda: read(loop))
    assert "cannot be read" in refusal(lambda: read(file / "inside"))
    assert "cannot be read" in refusal(lambda: read(Path("a\0b")))
    assert "cannot be read" in refusal(lambda: read(tmp_path / ("n" * 5000)))
    assert read(file) == b"abc"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch(mode=0)
    assert "Permission denied" in refusal(lambda: read(path))


def test_a_file_that_shrinks_while_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"abc")
    with opened(path) as (fd, _):
        os.truncate(path, 2)
        assert "ends at byte 2; 3 bytes" in refusal(lambda: read_range(fd, path, 0, 3))


def test_a_read_error_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> int:
        raise OSError(5, "Input/output error")

    path = tmp_path / "file"
    path.write_bytes(b"abc")
    monkeypatch.setattr(os, "preadv", broken)
    with pytest.raises(ReadError) as e:
        read(path)
    assert str(path) in str(e.value)
    assert "at byte 0: cannot be read: Input/output error (EIO), after 3 retries" in str(e.value)


@pytest.mark.parametrize("call", ["preadv", "open", "stat"])
def test_a_storage_error_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    path, own, errors = tmp_path / "file", getattr(os, call), [errno.EIO, errno.ESTALE]
    path.write_bytes(b"abc")

    def flaky(*args: Any, **named: Any) -> Any:
        if errors:
            raise OSError(errors.pop(), "not now")
        return own(*args, **named)

    monkeypatch.setattr(os, call, flaky)
    assert read(path) == b"abc"
    assert not errors


@pytest.mark.parametrize("number", [errno.EIO, errno.ENODEV, errno.ENOTCONN])
def test_a_lost_mount_is_a_storage_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def lost(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    (tmp_path / "file").touch()
    for name in ("open", "listdir"):
        monkeypatch.setattr(os, name, lost)
    for call in (lambda: read(tmp_path / "file"), lambda: list_names(tmp_path)):
        with pytest.raises(ReadError, match=errno.errorcode[number]):
            call()


def test_too_many_open_files_says_what_helps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    (tmp_path / "file").touch()
    monkeypatch.setattr(os, "open", full)
    assert "ulimit -n" in refusal(lambda: read(tmp_path / "file"))


def test_short_reads_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def one_byte(fd: int, buffers: list[memoryview], offset: int) -> int:
        return real(fd, [buffers[0][:1]], offset)

    real = os.preadv
    path = tmp_path / "file"
    path.write_bytes(b"abc")
    monkeypatch.setattr(os, "preadv", one_byte)
    assert read(path) == b"abc"


def test_directories(tmp_path: Path) -> None:
    (tmp_path / "b").touch()
    (tmp_path / "a").touch()
    assert list_names(tmp_path) == ["a", "b"]
    assert "is a file" in refusal(lambda: list_names(tmp_path / "a"))
    assert "no such directory" in refusal(lambda: list_names(tmp_path / "c"))
    assert "cannot be listed" in refusal(lambda: list_names(Path("a\0b")))


def test_names_are_made_safe_for_a_message() -> None:
    assert shown("a\n\x1b[31m") == "'a\\n\\x1b[31m'"
    assert len(shown("k" * 100_000)) < 250

"""Reading files that may be missing, damaged or not files at all, with errors that name them."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from colibri.container.retry import RETRIES, described, of_storage, retried
from colibri.errors import ContainerError, ReadError


def shown(name: str) -> str:
    """A name from a file, quoted and cut so that it is safe and short in a message."""
    text = ascii(name)
    return text if len(text) <= 200 else f"{text[:160]}... ({len(name)} characters)"


def as_unicode(name: str) -> str:
    """A file name as JSON can hold it: what of it is no text becomes "?"."""
    return name.encode("utf-8", "replace").decode()


@contextmanager
def opened(path: Path) -> Iterator[tuple[int, int]]:
    """(file descriptor, size) of a regular file; every refusal is a ContainerError."""
    fd = open_file(path)
    try:
        yield fd, os.fstat(fd).st_size
    finally:
        os.close(fd)


def open_file(path: Path) -> int:
    """A descriptor for reading a regular file."""
    try:
        # A pipe or device would block or never end: look before opening.
        mode = retried(lambda: os.stat(path)).st_mode
        if stat.S_ISREG(mode):
            flags = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
            return retried(lambda: os.open(path, flags))
    except FileNotFoundError:
        raise ContainerError(dangling(path) or f"{path}: no such file") from None
    except (OSError, ValueError) as e:
        raise refusal(path, "cannot be read", e) from None
    kind = "a directory" if stat.S_ISDIR(mode) else "no regular file"
    raise ContainerError(f"{path}: is {kind}; a file was expected")


def has_file(directory: Path, name: str) -> bool:
    """Whether a file of that name is there. A link that leads nowhere is damage, not absence."""
    path = directory / name
    if said := dangling(path):
        raise ContainerError(said)
    return path.exists()


def dangling(path: Path) -> str | None:
    """What is wrong with a link to a file that is not there; None of anything else."""
    if not path.is_symlink() or path.exists():
        return None
    return (
        f"{path}: is a link to {os.readlink(path)}, which is not there; download the file again, "
        "or copy the model with its links followed (cp -rL)"
    )


def refusal(path: Path, what: str, e: OSError | ValueError) -> ContainerError:
    """A ReadError where the storage is at fault: the file may be in order."""
    if isinstance(e, OSError) and of_storage(e):
        return ReadError(f"{path}: {what}: {described(e)}; check the disk and its mount")
    return ContainerError(f"{path}: {what}: {reason(e)}")


def reason(e: OSError | ValueError) -> str:
    return (e.strerror if isinstance(e, OSError) else None) or str(e)


def read_into(fd: int, path: Path, buffer: memoryview, offset: int) -> None:
    """Fill the buffer from the file, however short the single reads."""
    done = 0
    while done < len(buffer):
        n = _read_some(fd, path, buffer[done:], offset + done)
        if n == 0:
            raise ContainerError(
                f"{path}: ends at byte {offset + done}; {offset + len(buffer)} bytes were "
                "expected: it changed or was cut short"
            )
        done += n


def _read_some(fd: int, path: Path, buffer: memoryview, offset: int) -> int:
    try:
        # The kernel's limit for one read is just under 2 GiB.
        return retried(lambda: os.preadv(fd, [buffer[: 1 << 30]], offset))
    except OSError as e:
        raise ReadError(
            f"{path} at byte {offset}: cannot be read: {described(e)}, after {RETRIES} retries; "
            "check the disk and the file"
        ) from None


def read_range(fd: int, path: Path, offset: int, nbytes: int) -> bytes:
    buffer = bytearray(nbytes)
    read_into(fd, path, memoryview(buffer), offset)
    return bytes(buffer)


def list_names(directory: Path) -> list[str]:
    """Sorted file names, so that nothing depends on the file system's order."""
    try:
        return sorted(retried(lambda: os.listdir(directory)))
    except FileNotFoundError:
        raise ContainerError(dangling(directory) or f"{directory}: no such directory") from None
    except NotADirectoryError:
        raise ContainerError(f"{directory}: is a file; give the model's directory") from None
    except (OSError, ValueError) as e:
        raise refusal(directory, "cannot be listed", e) from None

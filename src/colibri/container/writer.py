"""Writing a model's files so that a crash, a full disk or a bad disk leaves the old or the new one.

Every file goes to a temporary name, is synced, read back against its hash, then renamed.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from colibri.container.partfile import PartFile
from colibri.container.spec import ALIGNMENT
from colibri.errors import CapacityError, ContainerError

PART_SUFFIX = ".part"
FULL_DISK = (errno.ENOSPC, errno.EDQUOT)

Chunk = bytes | npt.NDArray[np.uint8]
Step = Callable[[int], None]  # called every few MB with the bytes to be written; may raise to stop


@dataclass(frozen=True)
class OutTensor:
    """A tensor of a shard to be written; `dtype` is safetensors' name."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    nbytes: int


@dataclass(frozen=True)
class Written:
    size: int
    sha256: str


def shard_header(tensors: Sequence[OutTensor], metadata: Mapping[str, str]) -> bytes:
    """A safetensors header, length included, padded with spaces to the alignment of shards."""
    entries: dict[str, Any] = {"__metadata__": dict(metadata)}
    offset = 0
    for t in tensors:
        end = offset + t.nbytes
        entries[t.name] = {"dtype": t.dtype, "shape": t.shape, "data_offsets": (offset, end)}
        offset = end
    text = json.dumps(entries, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % ALIGNMENT)
    return len(text).to_bytes(8, "little") + text


class FileWriter:
    """A file that appears whole and verified, or not at all: fill, then publish, close at the end.

    Each may run in another thread than the one before. They raise CapacityError when the disk is
    full (with the bytes that are missing), ContainerError when writing fails otherwise or what is
    read back differs from what was written.
    """

    def __init__(self, path: Path, size: int) -> None:
        self._path, self._size = path, size
        self._part = path.with_name(path.name + PART_SUFFIX)
        self._sha256 = ""
        if path.exists() and not path.is_file():
            # A rename would put a file in the place of a device or a pipe.
            raise ContainerError(f"{path}: is no regular file, so it is not replaced by one")
        with self._refusals():
            self._file = PartFile(self._part, size)

    def fill(self, chunks: Iterable[Chunk], step: Step | None = None) -> str:
        """Write `chunks`, which must be of the planned size in all; the SHA-256 of the whole."""
        step = step or _nothing
        with self._refusals():
            for chunk in chunks:
                self._file.write(np.frombuffer(chunk, np.uint8), step)
            self._sha256 = self._file.finish(step)
        if self._file.size != self._size:
            raise ContainerError(
                f"{self._path}: {self._file.size} bytes written, {self._size} were planned"
            )
        return self._sha256

    def publish(self, step: Step | None = None, *, verify: bool = True) -> Written:
        """Make the file durable, read it back and give it its name."""
        with self._refusals():
            self._file.sync()
            if verify and not self._file.is_as_written(step or _nothing):
                raise ContainerError(
                    f"{self._path}: what was read back differs from what was written; the disk or "
                    "memory is faulty, check both before converting again"
                )
            os.replace(self._part, self._path)
            sync_directory(self._path.parent)
        return Written(self._size, self._sha256)

    def close(self) -> None:
        """Remove what was not published."""
        if hasattr(self, "_file"):
            self._file.close()
        with contextlib.suppress(OSError):
            self._part.unlink(missing_ok=True)

    @contextlib.contextmanager
    def _refusals(self) -> Iterator[None]:
        try:
            with naming_the_file(self._path):
                yield
        except OSError as error:
            if error.errno not in FULL_DISK:
                raise
            self.close()  # what it took is free again, and told as such
            raise CapacityError(_full_disk_message(self._path, self._size)) from error


def write_file(
    path: Path,
    chunks: Iterable[Chunk],
    size: int,
    step: Step | None = None,
    *,
    verify: bool = True,
) -> Written:
    """Write `chunks`, `size` bytes in all, to `path`; raises what FileWriter raises.

    Without `verify` it is not read back: for what can be made again at any time.
    """
    with contextlib.closing(FileWriter(path, size)) as writer:
        writer.fill(chunks, step)
        return writer.publish(step, verify=verify)


@contextlib.contextmanager
def naming_the_file(path: Path) -> Iterator[None]:
    """Turn the system's refusals to write into errors that name the file; a full disk passes."""
    try:
        yield
    except OSError as error:
        if error.errno in FULL_DISK:
            raise
        raise ContainerError(f"{path}: cannot be written: {error.strerror or error}") from error


_NO_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)


def sync_directory(directory: Path) -> None:
    """Make renames and removals in a directory durable, where the file system knows how: CIFS and
    some of FUSE refuse it for directories, and there is nothing else to do there."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno not in _NO_SYNC:
            raise
    finally:
        os.close(fd)


def free_bytes(directory: Path) -> int:
    """Bytes an unprivileged process may still write there."""
    stat = os.statvfs(directory)
    return stat.f_bavail * stat.f_frsize


def _nothing(written: int) -> None:
    pass


def _full_disk_message(path: Path, size: int) -> str:
    free = free_bytes(path.parent)
    if free >= size:
        return (
            f"{path}: the disk refused more data although {free} of the {size} bytes needed "
            "are free: a quota is reached; raise it or free space, then run again"
        )
    return (
        f"{path}: the disk is full: the file takes {size} bytes, {free} are free, "
        f"{size - free} bytes are missing; free them, then run again"
    )

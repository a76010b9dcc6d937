"""Writing a model's files so that a crash, a full disk or a bad disk leaves the old or the new one.

Every file goes to a temporary name, is synced, read back against its hash, then renamed.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from colibri.container.spec import ALIGNMENT
from colibri.errors import CapacityError, ContainerError

PART_SUFFIX = ".part"
_PIECE_BYTES = 4 << 20
_FULL_DISK = (errno.ENOSPC, errno.EDQUOT)

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


def write_file(
    path: Path,
    chunks: Iterable[Chunk],
    size: int,
    step: Step | None = None,
    *,
    verify: bool = True,
) -> Written:
    """Write `chunks`, `size` bytes in all, to `path`: the whole verified file appears, or nothing.

    Without `verify` it is not read back: for what can be made again at any time.

    Raises CapacityError when the disk is full (with the bytes that are missing), ContainerError
    when writing fails otherwise or what is read back differs from what was written.
    """
    part = path.with_name(path.name + PART_SUFFIX)
    try:
        with naming_the_file(path):
            written = _write_part(part, chunks, step or _nothing)
            if written.size != size:
                raise ContainerError(f"{path}: {written.size} bytes written, {size} were planned")
            if verify:
                _verify(part, path, written, step or _nothing)
            os.replace(part, path)
            sync_directory(path.parent)
    except OSError as error:
        if error.errno not in _FULL_DISK:
            raise
        part.unlink(missing_ok=True)
        raise CapacityError(_full_disk_message(path, size)) from error
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
    return written


@contextlib.contextmanager
def naming_the_file(path: Path) -> Iterator[None]:
    """Turn the system's refusals to write into errors that name the file; a full disk passes."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL_DISK:
            raise
        raise ContainerError(f"{path}: cannot be written: {error.strerror or error}") from error


def sync_directory(directory: Path) -> None:
    """Make renames and removals in a directory durable."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def free_bytes(directory: Path) -> int:
    """Bytes an unprivileged process may still write there."""
    stat = os.statvfs(directory)
    return stat.f_bavail * stat.f_frsize


def _nothing(written: int) -> None:
    pass


def _write_part(part: Path, chunks: Iterable[Chunk], step: Step) -> Written:
    digest = hashlib.sha256()
    size = 0
    fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        for chunk in chunks:
            for piece in _pieces(chunk):
                step(len(piece))
                digest.update(piece)
                _write_all(fd, piece)
                size += len(piece)
        os.fsync(fd)
    finally:
        os.close(fd)
    return Written(size, digest.hexdigest())


def _pieces(chunk: Chunk) -> Iterator[memoryview]:
    view = chunk.data.cast("B") if isinstance(chunk, np.ndarray) else memoryview(chunk)
    for start in range(0, len(view), _PIECE_BYTES):
        yield view[start : start + _PIECE_BYTES]


def _write_all(fd: int, piece: memoryview) -> None:
    while piece:
        piece = piece[os.write(fd, piece) :]


def _verify(part: Path, path: Path, written: Written, step: Step) -> None:
    """Read the synced file back from the disk itself, not from the page cache where avoidable."""
    digest = hashlib.sha256()
    buffer = memoryview(bytearray(_PIECE_BYTES))
    fd = os.open(part, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _drop_pages(fd)
        while count := os.readv(fd, [buffer]):
            step(0)
            digest.update(buffer[:count])
        _drop_pages(fd)
    finally:
        os.close(fd)
    if digest.hexdigest() != written.sha256:
        raise ContainerError(
            f"{path}: what was read back differs from what was written; "
            "the disk or memory is faulty, check both before converting again"
        )


def _drop_pages(fd: int) -> None:
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)


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

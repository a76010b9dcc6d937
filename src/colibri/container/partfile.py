"""A large file on its way to the disk: written past the page cache in whole buffers where the file
system takes that, hashed meanwhile, and read back from the disk itself."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import ParamSpec, TypeVar

import numpy as np
import numpy.typing as npt
import xxhash

from colibri.container.direct import PAGE, DirectFiles, aligned, pages
from colibri.hardware.pagecache import forget_pages

PIECE_BYTES = 4 << 20
_BUFFERS = 3  # one being filled, one hashed and written, one waiting
_DIRECT_FROM_BYTES = 1 << 20
_READERS = 2
_DIRECT = getattr(os, "O_DIRECT", 0)

U8 = npt.NDArray[np.uint8]
Step = Callable[[int], None]
P = ParamSpec("P")
T = TypeVar("T")


class _AtOnce(Executor):
    """No thread: work is done when it is handed over."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        done: Future[T] = Future()
        try:
            done.set_result(fn(*args, **kwargs))
        except Exception as error:
            done.set_exception(error)
        return done


def _one_thread(name: str) -> Executor:
    return ThreadPoolExecutor(1, thread_name_prefix=name)


class PartFile:
    """Write it, finish it, check it: in this order, each from one thread at a time.

    Of a large file both hashes are other threads' work: the caller only copies."""

    def __init__(self, path: Path, size: int) -> None:
        """`size` is a hint: small files are not worth direct writes, nor threads, which Python
        gives to nobody once it is ending."""
        large = size >= _DIRECT_FROM_BYTES
        self._path = path
        self._direct = _DIRECT if large else 0
        self._fd = _create(path, self._direct)
        self._thread = _one_thread("coli-write") if large else _AtOnce()
        self._hasher = _one_thread("coli-hash") if large else _AtOnce()
        self._free = deque(aligned(pages(min(size, PIECE_BYTES)) or PAGE) for _ in range(_BUFFERS))
        self._filled = 0
        self._writing: deque[tuple[U8, Future[bytes], Future[None]]] = deque()
        self._digests: list[bytes] = []
        self._sha256 = hashlib.sha256()
        self.size = 0

    def write(self, data: U8, step: Step) -> None:
        """Take a copy. `step` is called with the size of every piece that goes to the disk."""
        while len(data):
            buffer = self._free[0]
            taken = data[: len(buffer) - self._filled]
            buffer[self._filled : self._filled + len(taken)] = taken
            self._filled += len(taken)
            data = data[len(taken) :]
            if self._filled == len(buffer):
                self._flush(step)

    def finish(self, step: Step) -> str:
        """Hand over what is left and wait for it; the SHA-256 of the whole."""
        if self._filled:
            self._flush(step)
        while self._writing:
            self._collect()
        self._thread.shutdown()
        self._hasher.shutdown()
        self._free.clear()
        return self._sha256.hexdigest()

    def sync(self) -> None:
        os.fsync(self._fd)

    def is_as_written(self, step: Step) -> bool:
        """Whether the synced file holds what was written, by the disk's own account."""
        forget_pages(self._fd)
        files = DirectFiles()

        def same(index: int) -> bool:
            start = index * PIECE_BYTES
            piece = files.borrow(self._path, start, min(PIECE_BYTES, self.size - start))
            return xxhash.xxh3_128_digest(piece.data) == self._digests[index]

        pool = ThreadPoolExecutor(_READERS, thread_name_prefix="coli-verify")
        try:
            for good in pool.map(same, range(len(self._digests))):
                step(0)
                if not good:
                    return False
            return True
        finally:
            pool.shutdown(cancel_futures=True)
            files.close()

    def close(self) -> None:
        self._thread.shutdown(cancel_futures=True)
        self._hasher.shutdown(cancel_futures=True)
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _flush(self, step: Step) -> None:
        step(self._filled)
        buffer = self._free.popleft()
        piece = buffer[: self._filled]
        hashed = self._hasher.submit(self._sha256.update, piece.data)
        self._writing.append((buffer, self._thread.submit(self._put, piece), hashed))
        self.size += self._filled
        self._filled = 0
        if not self._free:
            self._collect()

    def _collect(self) -> None:
        buffer, written, hashed = self._writing.popleft()
        self._digests.append(written.result())
        hashed.result()
        self._free.append(buffer)

    def _put(self, piece: U8) -> bytes:
        digest = xxhash.xxh3_128_digest(piece.data)
        data = piece.data
        while data:
            data = data[self._write_some(data) :]
        return digest

    def _write_some(self, data: memoryview) -> int:
        whole = len(data) - len(data) % PAGE
        if self._direct and not whole:
            self._write_buffered()  # the file's tail
        try:
            count = os.write(self._fd, data[:whole] if self._direct else data)
        except OSError as error:
            if not self._direct or error.errno != errno.EINVAL:
                raise
            self._write_buffered()  # the flag was accepted, the write is not
            return 0
        if count % PAGE:
            self._write_buffered()
        return count

    def _write_buffered(self) -> None:
        if self._direct:
            flags = fcntl.fcntl(self._fd, fcntl.F_GETFL)
            fcntl.fcntl(self._fd, fcntl.F_SETFL, flags & ~self._direct)
            self._direct = 0


def _create(path: Path, direct: int) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    try:
        return os.open(path, flags | direct, 0o644)
    except OSError as error:
        if not direct or error.errno != errno.EINVAL:
            raise
    return os.open(path, flags, 0o644)

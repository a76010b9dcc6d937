"""Reads past the page cache, into whole pages of memory: as fast as the disk, and without pushing
out of memory what others keep there. Where a file system refuses, the same reads buffered."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from colibri.container.files import open_file, read_into
from colibri.hardware.pagecache import forget_pages

PAGE = 4096
MOST_OPEN = 16  # files, of two descriptors each: a checkpoint may have hundreds of shards
_DIRECT = getattr(os, "O_DIRECT", 0)
_SMALL_BYTES = 256 << 10  # fresh memory for less would mostly be padding
_COPIED_BYTES = 1 << 20
_ELEMENT_BYTES = 8  # the widest of a tensor's; a header of odd length leaves them unaligned
_READ_BYTES = 1 << 30

U8 = npt.NDArray[np.uint8]


def pages(nbytes: int) -> int:
    """nbytes rounded up to whole pages."""
    return nbytes + -nbytes % PAGE


def aligned(nbytes: int) -> U8:
    """Fresh memory that begins at a page."""
    memory = np.empty(nbytes + PAGE, np.uint8)
    start = -memory.ctypes.data % PAGE
    return memory[start : start + nbytes]


class DirectFiles:
    """Files of a model, each opened when it is read; those that were read last are kept open. May
    be used by many threads.

    `direct=False` reads through the page cache (and drops the pages). `on_read` is told the size of
    each read, by the thread that made it.
    """

    on_read: Callable[[int], None] | None = None

    def __init__(self, direct: bool = True) -> None:
        self._direct = direct
        self._lock = threading.Lock()
        self._files: dict[Path, _File] = {}
        self._local = threading.local()

    def read(self, path: Path, offset: int, nbytes: int, place: U8 | None = None) -> U8:
        """The bytes in `place`, or in fresh memory aligned for any element; what the thread
        borrowed is overwritten. Raises ContainerError if the file has fewer."""
        if place is not None or nbytes < _SMALL_BYTES or offset % _ELEMENT_BYTES:
            out = np.empty(nbytes, np.uint8) if place is None else place
            return self._copied(path, offset, out)
        skew = offset % PAGE
        buffer = aligned(pages(skew + nbytes))
        self._fill(path, buffer, offset - skew, skew + nbytes)
        self._tell(nbytes)
        return buffer[skew : skew + nbytes]

    def borrow(self, path: Path, offset: int, nbytes: int) -> U8:
        """The same in memory that the thread's next call uses again."""
        skew = offset % PAGE
        buffer = self._buffer(pages(skew + nbytes))
        self._fill(path, buffer, offset - skew, skew + nbytes)
        self._tell(nbytes)
        return buffer[skew : skew + nbytes]

    def _tell(self, nbytes: int) -> None:
        if self.on_read is not None:
            self.on_read(nbytes)

    def _copied(self, path: Path, offset: int, out: U8) -> U8:
        for start in range(0, len(out), _COPIED_BYTES):
            count = min(_COPIED_BYTES, len(out) - start)
            out[start : start + count] = self.borrow(path, offset + start, count)
        return out

    def close(self) -> None:
        """Close the files and forget the caller's buffer; a later read opens them again."""
        with self._lock:
            files, self._files = self._files, {}
            self._local = threading.local()
        for file in files.values():
            file.close()

    def __del__(self) -> None:
        self.close()

    def _fill(self, path: Path, buffer: U8, offset: int, needed: int) -> None:
        with self._lock:
            file = self._files.pop(path, None) or _File(path, self._direct)
            self._files[path] = file  # the last is the one read last
            file.readers += 1
        try:
            file.fill(buffer.data, offset, needed)
        finally:
            with self._lock:
                file.readers -= 1
                self._close_idle()

    def _close_idle(self) -> None:
        """Those that were not read for longest, of more than may stay open."""
        idle = [path for path, file in self._files.items() if not file.readers]
        for path in idle[: max(0, len(self._files) - MOST_OPEN)]:
            self._files.pop(path).close()

    def _buffer(self, nbytes: int) -> U8:
        buffer: U8 | None = getattr(self._local, "buffer", None)
        if buffer is None or len(buffer) < nbytes:
            buffer = self._local.buffer = aligned(nbytes)
        return buffer[:nbytes]


class _File:
    def __init__(self, path: Path, direct: bool) -> None:
        self._path = path
        self._buffered = open_file(path)
        self._direct = _open_direct(path) if direct else None
        self._refused = False
        self.readers = 0  # threads that read it at this moment

    def fill(self, buffer: memoryview, offset: int, needed: int) -> None:
        """At least `needed` bytes from `offset` on, both buffer and offset being whole pages."""
        done = self._fill_direct(buffer, offset, needed)
        if done < needed:  # also what a direct read cannot do: say what is wrong, or try again
            read_into(self._buffered, self._path, buffer[done:needed], offset + done)
            forget_pages(self._buffered, offset + done, needed - done)

    def _fill_direct(self, buffer: memoryview, offset: int, needed: int) -> int:
        done = 0
        while self._direct is not None and not self._refused and done < needed:
            try:
                n = os.preadv(self._direct, [buffer[done : done + _READ_BYTES]], offset + done)
            except OSError as error:
                # A file system may accept the flag and refuse the reads.
                self._refused = error.errno == errno.EINVAL
                break
            done += n
            if n == 0 or n % PAGE:  # the file ends, or the rest is not at a page
                break
        return done

    def close(self) -> None:
        for fd in (self._buffered, self._direct):
            if fd is not None:
                os.close(fd)


def _open_direct(path: Path) -> int | None:
    try:
        return os.open(path, os.O_RDONLY | _DIRECT | os.O_CLOEXEC) if _DIRECT else None
    except OSError:
        return None

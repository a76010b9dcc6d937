"""What this machine can do at most: memory and disk bandwidth, measured.

One sample each: whoever uses them takes several, around what is measured.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import re
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from colibri import _native
from colibri.errors import ReadError
from colibri.hardware.pagecache import forget_pages

_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_SIZE = re.compile(r"(\d+)([KMG])", re.ASCII)
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_PAGE = 4096
_HUGE_PAGE = 2 << 20
_LEAST_STREAM, _MOST_STREAM = 512 << 20, 4 << 30


@dataclass(frozen=True)
class Extent:
    """A piece of a file; for direct reads offset and nbytes are multiples of 4096."""

    file: Path
    offset: int
    nbytes: int


@dataclass(frozen=True)
class DiskRate:
    bytes_per_second: float
    direct: bool  # read past the page cache
    read_bytes: int


def last_level_cache_bytes(caches: Path = _CACHES) -> int | None:
    """The largest cache of the first CPU; None if the system does not say."""
    sizes = []
    with contextlib.suppress(OSError):
        for file in caches.glob("index*/size"):
            if found := _SIZE.fullmatch(file.read_text().strip()):
                sizes.append(int(found[1]) * _UNITS[found[2]])
    return max(sizes, default=None)


def memory_bandwidth(available_bytes: int, seconds: float = 0.5) -> float:
    """Bytes a second that the kernel threads can read, over at least four times the last cache.

    available_bytes: memory that may be taken; a quarter of it is the limit. seconds: how long.
    """
    # A victim cache keeps part of a stream several times its size.
    wanted = max(16 * (last_level_cache_bytes() or 0), _LEAST_STREAM)
    size = min(wanted, _MOST_STREAM, max(available_bytes // 4, 1 << 20))
    data = np.ones(size // 8, np.uint64)
    end = time.perf_counter() + seconds
    best = max(_pass(data) for _ in range(3))
    while time.perf_counter() < end:
        best = max(best, _pass(data))
    return best


def _pass(data: np.ndarray[tuple[int], np.dtype[np.uint64]]) -> float:
    begin = time.perf_counter()
    _native.stream_read(data)
    return data.nbytes / (time.perf_counter() - begin)


def disk_bandwidth(
    extents: Sequence[Extent], readers: int, *, most_bytes: int = 1 << 30
) -> DiskRate:
    """Bytes a second of reading extents in random order with this many threads, cold.

    Direct reads where the file system can; else the page cache is dropped first. Stops after
    most_bytes. Raises ReadError.
    """
    chosen = _shuffled(extents, most_bytes)
    drop_page_cache({e.file for e in chosen})
    return _Pass(chosen, readers).run()


def burst_bandwidth(
    extents: Sequence[Extent],
    readers: int,
    at_a_time: int,
    pause_seconds: float,
    *,
    most_bytes: int = 1 << 29,
) -> float:
    """Bytes a second while extents are read as a layer's missing experts are: so many at once, the
    next ones after the last has come and a pause, which does not count.

    By the native readers, direct where the file system can. Raises ReadError.
    """
    chosen = _shuffled(extents, most_bytes)
    drop_page_cache({e.file for e in chosen})
    files = {file: _open(file) for file in {e.file for e in chosen}}
    size = max(e.nbytes for e in chosen)
    memory = np.frombuffer(_buffer(size * at_a_time), np.uint8)
    slots = [memory[i * size : (i + 1) * size] for i in range(at_a_time)]
    pool = _native.Readers(readers, size + -size % _PAGE, None)
    seconds = 0.0
    try:
        for first in range(0, len(chosen), at_a_time):
            burst = chosen[first : first + at_a_time]
            jobs = [
                (tag, -1, slot, [(*files[e.file], e.offset, e.nbytes, e.nbytes, 0)])
                for tag, (e, slot) in enumerate(zip(burst, slots, strict=False))
            ]
            begin = time.perf_counter()
            pool.submit(jobs)
            _collect(pool, len(jobs))
            seconds += time.perf_counter() - begin
            time.sleep(pause_seconds)
    finally:
        pool.close()
        for descriptor, _ in files.values():
            os.close(descriptor)
    return sum(e.nbytes for e in chosen) / seconds


def _collect(pool: _native.Readers, jobs: int) -> None:
    while jobs:
        for _, _, _, error in pool.collect(0.05):
            if error:
                raise ReadError(f"measuring the disk: {os.strerror(abs(error))}")
            jobs -= 1


def _open(file: Path) -> tuple[int, bool]:
    """A descriptor, and whether it reads past the page cache."""
    try:
        return os.open(file, os.O_RDONLY | getattr(os, "O_DIRECT", 0)), hasattr(os, "O_DIRECT")
    except OSError:  # a file system without direct reads, tmpfs for one
        return os.open(file, os.O_RDONLY), False


def _shuffled(extents: Sequence[Extent], most_bytes: int) -> list[Extent]:
    order = np.random.default_rng().permutation(len(extents))
    size = max(e.nbytes for e in extents)
    return [extents[i] for i in islice(order, max(1, most_bytes // size))]


def drop_page_cache(files: set[Path]) -> None:
    """Have the system forget the files' pages; written ones are written out first."""
    for file in sorted(files):
        fd = os.open(file, os.O_RDONLY)
        try:
            os.fsync(fd)
            forget_pages(fd)
        finally:
            os.close(fd)


def _buffer(size: int) -> memoryview:
    """As expert slots are: page-aligned for direct reads, in huge pages, all touched.

    With small pages a disk sees many more, smaller requests.
    """
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS  # shared memory has no huge pages
    mapped = mmap.mmap(-1, size + -size % _HUGE_PAGE, flags=flags)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):  # the system has none
            mapped.madvise(mmap.MADV_HUGEPAGE)
    view = memoryview(mapped)
    np.frombuffer(view, np.uint8)[::4096] = 1
    return view


class _Pass:
    def __init__(self, extents: Sequence[Extent], readers: int) -> None:
        self._extents = iter(extents)
        self._lock = threading.Lock()
        self._size = max(e.nbytes for e in extents)
        self._readers = readers
        self._read = 0
        self._errors: list[OSError] = []
        self._fds: dict[Path, int] = {}
        self._direct = True
        for file in {e.file for e in extents}:
            self._fds[file], is_direct = _open(file)
            self._direct &= is_direct

    def run(self) -> DiskRate:
        # As the engine's, the buffers are there before the first read.
        buffers = [_buffer(self._size) for _ in range(self._readers)]
        threads = [threading.Thread(target=self._serve, args=[view]) for view in buffers]
        begin = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seconds = time.perf_counter() - begin
        for fd in self._fds.values():
            os.close(fd)
        if self._errors:
            raise ReadError(f"measuring the disk: {self._errors[0]}")
        return DiskRate(self._read / seconds, self._direct, self._read)

    def _serve(self, view: memoryview) -> None:
        try:
            while (extent := self._next()) is not None:
                n = os.preadv(self._fds[extent.file], [view[: extent.nbytes]], extent.offset)
                with self._lock:
                    self._read += n
        except OSError as error:
            self._errors.append(error)

    def _next(self) -> Extent | None:
        with self._lock:
            return next(self._extents, None)

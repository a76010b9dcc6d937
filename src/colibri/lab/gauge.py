"""Memory and disk bandwidth sampled around the runs, by a process of its own.

Of its own, because the stream's buffer is no part of the model's memory. Around the runs, because
other work on the machine comes and goes, and so do moments in which a guest gets more than its
share: the median is what the runs had to do with.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Protocol, Self

from colibri.hardware import probe
from colibri.hardware.iobench import (
    DiskRate,
    Extent,
    burst_bandwidth,
    disk_bandwidth,
    memory_bandwidth,
)
from colibri.kernels import cpu
from colibri.planner.rates import compute_rate

_MEMORY_SECONDS = 0.5
_DISK_BYTES = 1 << 30


class Gauge(Protocol):
    def memory(self, threads: int) -> float:
        """Bytes a second that this many threads read, now."""
        ...

    def disk(self, extents: Sequence[Extent], readers: int) -> DiskRate:
        """Of reading these extents with this many threads, now. Raises ReadError."""
        ...

    def bursts(
        self, extents: Sequence[Extent], readers: int, at_a_time: int, pause_seconds: float
    ) -> float:
        """Bytes a second of bursts of so many with a pause after each, now. Raises ReadError."""
        ...


class ProcessGauge:
    """A Gauge with a process that idles between samples."""

    def __enter__(self) -> Self:
        # Ctrl-C reaches the whole group; the parent takes it and ends this one.
        ignore = (signal.SIGINT, signal.SIG_IGN)
        context = get_context("spawn")
        self._pool = ProcessPoolExecutor(1, context, signal.signal, ignore)
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()

    def memory(self, threads: int) -> float:
        return self._pool.submit(_memory, threads).result()

    def disk(self, extents: Sequence[Extent], readers: int) -> DiskRate:
        return self._pool.submit(_disk, list(extents), readers).result()

    def bursts(
        self, extents: Sequence[Extent], readers: int, at_a_time: int, pause_seconds: float
    ) -> float:
        asked = list(extents), readers, at_a_time, pause_seconds
        return self._pool.submit(burst_bandwidth, *asked).result()

    def compute(self, threads: int, planes: int) -> float:
        """Bytes of 4-bit weights a second that this many threads multiply (planner.rates)."""
        return self._pool.submit(_compute, threads, planes).result()


def _memory(threads: int) -> float:
    cpu.configure(threads)
    return memory_bandwidth(probe.facts().usable_bytes, _MEMORY_SECONDS)


def _compute(threads: int, planes: int) -> float:
    cpu.configure(threads)
    return compute_rate(planes)


def _disk(extents: Sequence[Extent], readers: int) -> DiskRate:
    return disk_bandwidth(extents, readers, most_bytes=_DISK_BYTES)

"""What the machine can do at most, sampled around the runs that it is to be held against."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from colibri.hardware.iobench import DiskRate, Extent
from colibri.lab.clock import StepRecord, by_layer
from colibri.lab.gauge import Gauge


@dataclass(frozen=True)
class Bursts:
    """How decode asks for what is missing: experts a layer, and the time until the next layer
    asks for some."""

    experts: int
    pause_seconds: float

    @classmethod
    def of(cls, records: Sequence[StepRecord]) -> Self | None:
        """None where nothing was missed."""
        misses = [n for r in records for _, n in r.traffic.layers.values() if n]
        if not misses:
            return None
        phases = [stay for r in records for stay in by_layer(r).values()]
        idle = sum(
            sum(stay.values()) - stay["expert_wait"] - stay["expert_matmul"] for stay in phases
        )
        return cls(round(statistics.fmean(misses)), idle / len(misses))


class Samples:
    """Samples of what the machine can do, taken before, between and after the runs."""

    def __init__(self, gauge: Gauge, extents: Sequence[Extent], readers: int, threads: int) -> None:
        self._gauge = gauge
        self._extents = extents
        self._readers = readers
        self._threads = threads
        self.memory: list[float] = []
        self.disk: list[DiskRate] = []
        self.bursts: list[float] = []
        self.bursts_together: list[float] = []

    def sample(self, alone: Bursts | None, together: Bursts | None = None) -> None:
        """alone, together: how one conversation, and several, asked for what was missing."""
        self.memory.append(self._gauge.memory(self._threads))
        if self._extents:
            self.disk.append(self._gauge.disk(self._extents, self._readers))
            if alone is not None:
                self.bursts.append(self._burst(alone))
            if together is not None:
                self.bursts_together.append(self._burst(together))

    def _burst(self, asked: Bursts) -> float:
        return self._gauge.bursts(self._extents, self._readers, asked.experts, asked.pause_seconds)

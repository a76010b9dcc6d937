"""How many readers, and whether past the page cache: measured on the model's own experts.

Reads go past the page cache, for a file that was read before would be measured at memory speed. A
file system that refuses such reads is not measured, and the defaults stand.
"""

import os
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, islice

from colibri.config.choices import AutoOnOff
from colibri.container.layerexperts import LayerExperts
from colibri.experts.base import Multipliers, ReadFunction
from colibri.experts.cache.arena import Arena
from colibri.experts.reads.job import Job
from colibri.experts.reads.loader import Loader
from colibri.experts.reads.sources import Sources
from colibri.experts.stage import LayerStage
from colibri.hardware.pagecache import forget_pages

READERS = (1, 2, 4, 8)
DEFAULT_READERS = 4
SECONDS = 0.3  # for all measurements together
WITHIN = 0.97  # fewer readers are preferred where they reach this share of the best
_LAYERS = 4  # measured on: each is a file to open


@dataclass(frozen=True)
class Choice:
    readers: int = DEFAULT_READERS
    direct: AutoOnOff = "auto"


def choose(
    layers: Sequence[LayerExperts],
    slots: Sequence[memoryview],
    read: ReadFunction | None,
    direct: AutoOnOff,
    seconds: float = SECONDS,
) -> Choice:
    """slots: memory to read into, each large enough for any expert of the layers."""
    if direct == "off":
        return Choice(direct=direct)
    bench = Bench(layers, slots, read, seconds / (len(READERS) + 1))
    rates: dict[int, float] = {}
    for readers in READERS:
        rate = bench.rate(readers, "auto")
        if rate is None:
            return Choice(direct=direct)
        rates[readers] = rate
    readers = fewest(rates)
    if direct == "auto" and bench.forget_pages():
        buffered = bench.rate(readers, "off")
        if buffered is not None and rates[readers] < WITHIN * buffered:
            return Choice(readers, "off")
    return Choice(readers, direct)


def room(
    stages: Iterable[LayerStage], arena: Arena, buffers: Sequence[memoryview]
) -> tuple[list[LayerExperts], list[memoryview]]:
    """To measure with before anything is read: the layers whose experts are the largest, and places
    for them: some of their slots, unless experts are read into buffers."""
    stages = list(stages)
    size = max(stage.source.slot_bytes for stage in stages)
    largest = [stage for stage in stages if stage.source.slot_bytes == size]
    if buffers:
        return [stage.source for stage in largest], list(buffers)
    pools = dict.fromkeys(stage.cache.pool for stage in largest)
    slots = [slot for pool in pools for slot in pool.free][: READERS[-1]]
    return [stage.source for stage in largest], [arena.view(slot) for slot in slots]


def fewest(rates: Mapping[int, float]) -> int:
    """The fewest readers whose rate is as good as the best, or nearly."""
    enough = WITHIN * max(rates.values())
    return min(readers for readers, rate in rates.items() if rate >= enough)


class Bench:
    """Reads experts in random order into slots for `seconds`. wanted: which of them."""

    def __init__(
        self,
        layers: Sequence[LayerExperts],
        slots: Sequence[memoryview],
        read: ReadFunction | None,
        seconds: float,
        wanted: Callable[[int, int], bool] = lambda layer, expert: True,
    ) -> None:
        step = -(-len(layers) // _LAYERS)
        self._layers = layers[::step]
        self._slots = slots
        self._read = read
        self._seconds = seconds
        experts = [
            (layer, e)
            for layer in self._layers
            for e in range(layer.num_experts)
            if wanted(layer.layer, e)
        ]
        random.Random(0).shuffle(experts)
        self._experts = cycle(experts)
        self._any = bool(experts)

    def __bool__(self) -> bool:
        """Whether there is anything to read."""
        return self._any

    def rate(self, readers: int, direct: AutoOnOff) -> float | None:
        """Bytes a second; None if a read failed, or did not go the way that was asked for."""
        return self._rate(Loader(readers, self._read, direct), readers, direct == "auto")

    def rate_from(self, sources: Sources, choice: Choice) -> float | None:
        """Bytes a second from several drives, whichever way the files are read; None if a read
        failed."""
        loader = Loader(choice.readers, self._read, choice.direct, sources)
        return self._rate(loader, choice.readers * len(sources.drives), must_be_direct=False)

    def _rate(self, loader: Loader, depth: int, must_be_direct: bool) -> float | None:
        try:
            jobs = self._jobs()
            for job in islice(jobs, depth + 1):
                loader.submit(job)
            return _rate(loader, jobs, must_be_direct, self._seconds)
        finally:
            loader.close()

    def forget_pages(self) -> bool:
        """Drops the files from the page cache; False where that cannot be asked for."""
        for file in {layer.reads(0)[0].file for layer in self._layers}:
            descriptor = os.open(file, os.O_RDONLY)
            try:
                if not forget_pages(descriptor):
                    return False
            finally:
                os.close(descriptor)
        return True

    def _jobs(self) -> Iterator[Job]:
        """Experts in random order; what lands in a slot twice at a time is read by nobody."""
        for (layer, expert), slot in zip(self._experts, cycle(self._slots), strict=False):
            yield Job(layer.layer, expert, layer.reads(expert), slot, _unchecked)


def _rate(
    loader: Loader,
    jobs: Iterator[Job],
    must_be_direct: bool,
    seconds: float,
    clock: Callable[[], float] = time.perf_counter,
) -> float | None:
    begin, nbytes = clock(), 0
    while (elapsed := clock() - begin) < seconds or not nbytes:
        for job in loader.collect(0.05):
            if job.error is not None or (must_be_direct and not loader.direct):
                return None
            nbytes += job.nbytes
            loader.submit(next(jobs))
    return nbytes / elapsed


def _unchecked(slot: memoryview) -> Multipliers:
    return 1.0, 1.0, 1.0

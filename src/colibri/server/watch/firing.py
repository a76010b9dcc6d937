"""Which experts late steps selected, step by step: noted by the engine's thread only while somebody
watches, so that it costs nothing else."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from colibri.kernels.distinct import distinct

if TYPE_CHECKING:
    from colibri.experts.base import Ids
    from colibri.experts.streamed import StreamedExperts

KEPT_STEPS = 1024
LINGER_SECONDS = 30.0  # after the last watcher has left: one that lost its connection comes again
_FEW_ROWS = 64  # of more, a call is kept as the set of its experts


@dataclass(frozen=True)
class Fired:
    """One step. calls: (layer, int32 ids) in the order of the layers."""

    number: int
    turn: int
    prefill: bool
    rows: int
    seconds: float
    calls: tuple[tuple[int, bytes], ...]


class Firings:
    def __init__(self) -> None:
        self._experts: StreamedExperts | None = None
        self._kept: deque[Fired] = deque(maxlen=KEPT_STEPS)
        self._calls: list[tuple[int, bytes]] = []
        self._watchers = 0
        self._left = 0.0
        self._on = self._in_step = False
        self._number = self._turn = 0
        self._prefill = False
        self._rows = 0
        self._begun = 0.0

    def attach(self, experts: StreamedExperts) -> None:
        self._experts = experts

    @property
    def last(self) -> int:
        """The number of the last whole step, kept or not."""
        return self._number

    def begin(self, prefill: bool, rows: int, turn: int) -> None:
        """A step begins. On the engine's thread, as are end() and what is noted between."""
        if self._watchers:
            self._switch(True)
        elif self._on and time.monotonic() - self._left > LINGER_SECONDS:
            self._switch(False)
            self._kept.clear()
        self._prefill, self._rows, self._turn = prefill, rows, turn
        self._in_step = self._on
        if self._on:
            self._begun = time.perf_counter()

    def end(self) -> None:
        number = self._number + 1
        if self._in_step:
            seconds = time.perf_counter() - self._begun
            calls, self._calls = tuple(self._calls), []
            self._kept.append(Fired(number, self._turn, self._prefill, self._rows, seconds, calls))
        self._number = number  # told once it is kept

    @contextmanager
    def watched(self) -> Iterator[None]:
        """From the next step on steps are kept. On the event loop's thread."""
        self._watchers += 1
        try:
            yield
        finally:
            self._watchers -= 1
            self._left = time.monotonic()

    def since(self, number: int, most: int) -> tuple[list[Fired], int, int]:
        """The last `most` of the kept steps after that one, how many steps since are missing, and
        the last step's number. From any thread."""
        last = self._number
        found = [step for step in list(self._kept) if number < step.number <= last]
        found = found[-most:]
        return found, max(last - number - len(found), 0), last

    def _switch(self, on: bool) -> None:
        if on != self._on and self._experts is not None:
            self._on = on
            self._experts.listen(self._note if on else None)
            self._calls = []

    def _note(self, layer: int, topk_ids: Ids) -> None:
        if len(topk_ids) > _FEW_ROWS:
            topk_ids = distinct(topk_ids)
        self._calls.append((layer, topk_ids.tobytes()))


class ExpertMap:
    """Where each expert's bit and byte stands in what is sent: layer after layer, in order."""

    def __init__(self, experts_per_layer: dict[int, int]) -> None:
        self.layers = sorted(experts_per_layer)
        counts = [experts_per_layer[n] for n in self.layers]
        starts = np.concatenate([[0], np.cumsum(counts)])
        self.size = int(starts[-1])
        self.start = dict(zip(self.layers, starts.tolist(), strict=False))
        self._experts = experts_per_layer

    def fired(self, steps: list[Fired]) -> list[bytes]:
        """Of each step: bit i % 8 of byte i // 8 is expert i's."""
        if not steps:
            return []
        flags = np.zeros((len(steps), self.size), np.bool_)
        for row, step in enumerate(steps):
            if step.calls:
                sizes = [len(ids) >> 2 for _, ids in step.calls]
                starts = [self.start[layer] for layer, _ in step.calls]
                ids = np.frombuffer(b"".join(ids for _, ids in step.calls), np.int32)
                flags[row, ids + np.repeat(starts, sizes)] = True
        return [bits.tobytes() for bits in np.packbits(flags, axis=1, bitorder="little")]

    def bits(self, of_layer: Callable[[int], NDArray[np.bool_]]) -> bytes:
        flags = np.concatenate([of_layer(n) for n in self.layers] or [np.zeros(0, np.bool_)])
        return np.packbits(flags, bitorder="little").tobytes()

    def chosen(self, of_layer: Callable[[int], frozenset[int]]) -> bytes:
        """Bits of sets of experts."""

        def flags(layer: int) -> NDArray[np.bool_]:
            found = np.zeros(self._experts[layer], np.bool_)
            found[list(of_layer(layer))] = True
            return found

        return self.bits(flags)

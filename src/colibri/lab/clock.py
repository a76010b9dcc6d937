"""A clock that listens to the model's steps and says afterwards where their time went.

Native time within a phase is the phase's; the wait for the disk is `expert_wait`; all other wall
time (interpreter, NumPy, the GIL) is `python`. Two readings a boundary, about a microsecond.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from colibri import _native
from colibri.experts.streamed import StreamedExperts
from colibri.kernels.layer import Moment
from colibri.lab.counters import Counters
from colibri.layers.clock import Phase

PHASES = (
    "route",
    "expert_wait",
    "expert_matmul",
    "shared_expert",
    "attention",
    "dense",
    "head",
    "sampling",
    "python",
)

_WALKED: tuple[Phase, Phase, Phase] = ("attention", "route", "experts")

Mark = tuple[Phase, int, int, int, float]  # phase, layer, wall ns, native ns, seconds waited


@dataclass(frozen=True)
class Span:
    """One stay in a phase; `layer` -1: outside the layers. Seconds; begin from the step's."""

    phase: Phase
    layer: int
    begin: float
    wall: float
    native: float
    wait: float

    def shares(self) -> Iterator[tuple[str, float]]:
        """The wall time by name of PHASES."""
        yield ("expert_matmul" if self.phase == "experts" else self.phase), self.native
        yield "expert_wait", self.wait
        yield "python", self.wall - self.native - self.wait


@dataclass
class StepRecord:
    prefill: bool
    rows: int
    marks: list[Mark]
    traffic: Counters = field(default_factory=Counters)  # of this step

    @property
    def begin(self) -> float:
        return self.marks[0][2] / 1e9

    @property
    def end(self) -> float:
        return self.marks[-1][2] / 1e9

    @property
    def wall(self) -> float:
        return self.end - self.begin

    def spans(self) -> Iterator[Span]:
        start = self.marks[0][2]
        for (phase, layer, wall, native, wait), after in zip(
            self.marks, self.marks[1:], strict=False
        ):
            yield Span(
                phase,
                layer,
                (wall - start) / 1e9,
                (after[2] - wall) / 1e9,
                (after[3] - native) / 1e9,
                after[4] - wait,
            )


class StepClock:
    """A layers.clock.Clock that keeps every boundary of every step."""

    def __init__(self) -> None:
        self.records: list[StepRecord] = []
        self._marks: list[Mark] = []
        self._layer = -1
        self._experts: StreamedExperts | None = None
        self._before = Counters()
        self._waited: Callable[[], float] = lambda: 0.0
        self._between_steps = threading.Event()
        self._between_steps.set()

    def watch(self, experts: StreamedExperts) -> None:
        """From now on with the executor's waits and counters."""
        self._experts = experts
        self._waited = lambda: experts.wait_seconds

    def restart(self) -> None:
        """Forget all steps; counters begin here. Between answers only."""
        self._between_steps.wait()
        self.records = []
        self._before = self._read()

    def take(self) -> list[StepRecord]:
        """The steps since the restart, once the last has ended."""
        self._between_steps.wait()
        return self.records

    def begin(self, prefill: bool, rows: int) -> None:
        self._between_steps.clear()
        self._marks = []
        self.records.append(StepRecord(prefill, rows, self._marks))
        self.enter("other", -1)

    def enter(self, phase: Phase, layer: int | None = None, at: Moment | None = None) -> None:
        if layer is not None:
            self._layer = layer
        wall, native = at or _native.moment()
        self._marks.append((phase, self._layer, wall, native, self._waited()))

    def walked(self, layers: Sequence[int], moments: NDArray[np.int64]) -> None:
        waited = self._waited()  # nothing is waited for within a walk
        for layer, begun in zip(layers, moments.tolist(), strict=True):
            for phase, (wall, native) in zip(_WALKED, begun, strict=True):
                self._marks.append((phase, layer, wall, native, waited))
        self._layer = layers[-1]

    def end(self) -> None:
        self.enter("other", -1)
        now = self._read()
        self.records[-1].traffic = now.since(self._before)
        self._before = now
        self._between_steps.set()

    def _read(self) -> Counters:
        return Counters() if self._experts is None else Counters.of(self._experts)


def by_phase(records: list[StepRecord]) -> dict[str, float]:
    """Seconds a phase, over all records; every phase is there."""
    total = dict.fromkeys(PHASES, 0.0)
    for record in records:
        for span in record.spans():
            for name, seconds in span.shares():
                # Native time outside any phase (there is none in a decoder) is Python's doing.
                total[name if name in total else "python"] += seconds
    return total


def by_layer(record: StepRecord) -> dict[int, dict[str, float]]:
    """Seconds a phase of each layer of one step; -1: outside the layers."""
    layers: dict[int, dict[str, float]] = {}
    for span in record.spans():
        phases = layers.setdefault(span.layer, dict.fromkeys(PHASES, 0.0))
        for name, seconds in span.shares():
            phases[name if name in phases else "python"] += seconds
    return layers

"""Where the time of steps goes while the server serves: some steps are listened to, the last of
them are kept, and turns are summed up."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from colibri.lab.clock import StepClock, StepRecord, by_phase
from colibri.server.watch.firing import Firings
from colibri.server.watch.turnlog import TURN_PHASES, TurnLog

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from colibri.experts.streamed import StreamedExperts
    from colibri.kernels.layer import Moment
    from colibri.layers.clock import Phase

EVERY = 16  # steps: one of them is listened to, which costs it about a microsecond a boundary
KEPT = 32  # steps of each kind


class SampledClock:
    """A layers.clock.Clock. The first step of each kind in a turn is listened to."""

    def __init__(self) -> None:
        self.turns = TurnLog()
        self.firings = Firings()
        self._clock = StepClock()
        self._steps = {True: 0, False: 0}
        self._kept: dict[bool, deque[StepRecord]] = {
            prefill: deque(maxlen=KEPT) for prefill in (True, False)
        }
        self._listening = False
        self._prefill = False

    def watch(self, experts: StreamedExperts) -> None:
        self._clock.watch(experts)
        self.turns.watch(experts)
        self.firings.attach(experts)

    def begin(self, prefill: bool, rows: int) -> None:
        turn, first = self.turns.begin(prefill, rows)
        self.firings.begin(prefill, rows, turn)
        self._listening = first or self._steps[prefill] % EVERY == 0
        self._steps[prefill] += 1
        if self._listening:
            self._prefill = prefill
            self._clock.begin(prefill, rows)

    def enter(self, phase: Phase, layer: int | None = None, at: Moment | None = None) -> None:
        if self._listening:
            self._clock.enter(phase, layer, at)

    def walked(self, layers: Sequence[int], moments: NDArray[np.int64]) -> None:
        if self._listening:
            self._clock.walked(layers, moments)

    def end(self) -> None:
        record = None
        if self._listening:
            self._clock.end()
            record = self._clock.records[-1]
            self._kept[self._prefill].append(record)
            self._clock.records = []
        self.firings.end()
        self.turns.end(record)

    def summary(self) -> dict[str, Any]:
        """Seconds by phase, which add up to the steps' own, and to the turns'."""
        decode = list(self._kept[False])
        return {
            "every": EVERY,
            "prefill": _summary(list(self._kept[True])),
            "decode": _summary(decode),
            "phases": list(TURN_PHASES),
            "turns": self.turns.told(),
            "step": _timeline(decode[-1]) if decode else None,
        }


def _timeline(record: StepRecord) -> dict[str, Any]:
    """One step, phase after phase."""
    spans = [[s.phase, s.layer, s.begin, s.wall, s.native, s.wait] for s in record.spans()]
    return {"rows": record.rows, "seconds": record.wall, "spans": spans}


def _summary(records: list[StepRecord]) -> dict[str, Any]:
    return {
        "steps": len(records),
        "rows": sum(record.rows for record in records),
        "seconds": sum(record.wall for record in records),
        "phases": by_phase(records),
    }

"""Where the time of steps goes while the server serves: some steps are listened to, the last of
them are kept."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from colibri.lab.clock import StepClock, StepRecord, by_phase

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
    """A layers.clock.Clock. The first step of each kind is listened to, so that there is one."""

    def __init__(self) -> None:
        self._clock = StepClock()
        self._steps = {True: 0, False: 0}
        self._kept: dict[bool, deque[StepRecord]] = {
            prefill: deque(maxlen=KEPT) for prefill in (True, False)
        }
        self._listening = False
        self._prefill = False

    def watch(self, experts: StreamedExperts) -> None:
        self._clock.watch(experts)

    def begin(self, prefill: bool, rows: int) -> None:
        self._listening = self._steps[prefill] % EVERY == 0
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
        if self._listening:
            self._clock.end()
            self._kept[self._prefill] += self._clock.records
            self._clock.records = []

    def summary(self) -> dict[str, Any]:
        """Seconds by phase, which add up to the steps' own."""
        return {
            "every": EVERY,
            "prefill": _summary(list(self._kept[True])),
            "decode": _summary(list(self._kept[False])),
        }


def _summary(records: list[StepRecord]) -> dict[str, Any]:
    return {
        "steps": len(records),
        "rows": sum(record.rows for record in records),
        "seconds": sum(record.wall for record in records),
        "phases": by_phase(records),
    }

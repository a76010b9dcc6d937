"""What is learnt from use, and when: usage is saved and pins follow it between turns."""

from __future__ import annotations

import time
from collections.abc import Callable

from colibri.experts.streamed import StreamedExperts
from colibri.experts.usage.log import UsageLog
from colibri.experts.usage.pins import CachedLayer, Pins
from colibri.experts.usage.pintrial import PinTrial

BUSY_SECONDS = 30.0  # between two times while other answers are still being made


class Learning:
    """For the thread that runs the model; never fails an answer."""

    def __init__(
        self,
        log: UsageLog,
        pins: Pins,
        experts: StreamedExperts,
        policy: str = "lru",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._log = log
        self._pins = pins
        self._experts = experts
        self._policy = policy
        self._layers: dict[int, CachedLayer] = {}
        self._trial: PinTrial | None = None
        self._clock = clock
        self._last = clock()
        self._pin()

    def turn_ended(self, busy: bool) -> None:
        """An answer is complete, or broken off; busy: others are being made or wait."""
        if busy and self._clock() - self._last < BUSY_SECONDS:
            return
        self._log.save()
        self._pin()
        self._last = self._clock()

    def close(self) -> None:
        """Before the experts are closed."""
        self._log.save()

    def _pin(self) -> None:
        layers = self._experts.cached_layers()
        if self._pins.on_trial and layers != self._layers:  # at first, or resized
            self._trial = PinTrial(layers, self._policy)
            self._log.recorder.watched = self._trial.calls
        self._layers = layers
        pins = self._pins.revise(self._log.counts(), layers)
        if self._trial is not None and not self._trial.judge(pins):
            pins = {}
        self._experts.hold(pins)

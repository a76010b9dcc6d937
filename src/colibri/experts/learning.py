"""What is learnt from use, and when: usage is saved and pins follow it between turns."""

from __future__ import annotations

import time
from collections.abc import Callable

from colibri.experts.pins import Pins
from colibri.experts.streamed import StreamedExperts
from colibri.experts.usagelog import UsageLog

BUSY_SECONDS = 30.0  # between two times while other answers are still being made


class Learning:
    """For the thread that runs the model; never fails an answer."""

    def __init__(
        self,
        log: UsageLog,
        pins: Pins,
        experts: StreamedExperts,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._log = log
        self._pins = pins
        self._experts = experts
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
        pins = self._pins.revise(self._log.counts(), self._experts.cached_layers())
        self._experts.hold(pins)

"""Requests that wait for their turn: how many there may be, and how fast they get it."""

import threading
import time
from collections import deque
from collections.abc import Callable

from colibri.engine.request import Request
from colibri.errors import QueueFullError
from colibri.words import count_are

_REMEMBERED = 16  # departures that the rate is taken from
_SOONEST, _LATEST = 1.0, 600.0  # seconds that a client is told to wait


class Line:
    """enter() from any thread, leave() from the engine's."""

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._clock = clock
        self._lock = threading.Lock()
        self._waiting: set[Request] = set()
        self._since = clock()  # when the line last was empty
        self._departures: deque[float] = deque(maxlen=_REMEMBERED)

    def __len__(self) -> int:
        return len(self._waiting)

    def requests(self) -> list[Request]:
        with self._lock:
            return list(self._waiting)

    def enter(self, request: Request, bounded: bool) -> None:
        """bounded: only if fewer wait than may. Raises QueueFullError."""
        with self._lock:
            if bounded and len(self._waiting) >= self._most:
                seconds = self._retry_after()
                raise QueueFullError(
                    f"{count_are(len(self._waiting), 'request')} waiting already, as many as "
                    f"--max-queue allows: try again in {seconds:.0f} s",
                    seconds,
                )
            if not self._waiting:
                self._since = self._clock()
                self._departures.clear()
            self._waiting.add(request)

    def leave(self, request: Request) -> None:
        with self._lock:
            if request in self._waiting:
                self._waiting.remove(request)
                self._departures.append(self._clock())

    def _retry_after(self) -> float:
        """The mean time between departures, the present wait for the next one included."""
        begin = self._departures[0] if len(self._departures) > 1 else self._since
        seconds = (self._clock() - begin) / max(1, len(self._departures))
        return min(max(seconds, _SOONEST), _LATEST)

"""Ends requests whose engine cannot: its thread may wait for a read that never comes back."""

import threading
import time
from collections.abc import Callable

from colibri.engine.engine import Engine
from colibri.errors import StalledError

_EVERY_SECONDS = 0.5
_GRACE_SECONDS = 1.0  # in which the engine itself ends what is late


class Watchdog:
    """A thread that looks at the engine until stop(). stall_seconds: how long nothing may move
    while something runs; 0: for ever.

    engine: None once it has ended. The watchdog holds none itself between two looks.
    """

    def __init__(
        self,
        engine: Callable[[], Engine | None],
        stall_seconds: float,
        every_seconds: float = _EVERY_SECONDS,
    ) -> None:
        self._engine = engine
        self._stall_seconds = stall_seconds
        self._every = every_seconds
        self._moved = time.monotonic()
        self._seen: tuple[int, int] | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="colibri-watchdog", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(self._every):
            engine = self._engine()
            if engine is None:
                return
            self._look(engine)
            del engine

    def _look(self, engine: Engine) -> None:
        now, seen, requests = time.monotonic(), engine.progress, engine.requests()
        if seen != self._seen or not requests:
            self._seen, self._moved = seen, now
        stalled = self._stall_seconds and now - self._moved > self._stall_seconds
        for request in requests:
            if stalled:
                request.fail(
                    StalledError(
                        f"the model made no progress for {now - self._moved:.0f} s, most likely "
                        "in a read from the disk: the request was given up (--stall-timeout)"
                    )
                )
            elif request.deadline is not None and now > request.deadline + _GRACE_SECONDS:
                request.end_unwanted()

"""The one thread that owns the model. Others hand it requests and calls, and read the answers from
queues."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import TypeVar

from colibri.engine.engine import Engine
from colibri.engine.request import Request
from colibri.errors import ColibriError

T = TypeVar("T")
Job = Callable[[], None]


class EngineThread:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="colibri-engine", daemon=True)
        self._thread.start()

    def submit(self, request: Request) -> None:
        self._put(lambda: self._engine.submit(request))

    def call(self, function: Callable[[], T]) -> T:
        """Run `function` on the engine's thread between two steps; its result or its error."""
        future: Future[T] = Future()

        def job() -> None:
            try:
                future.set_result(function())
            except BaseException as error:
                future.set_exception(error)

        self._put(job)
        return future.result()

    def close(self) -> None:
        """Requests still running end with an error."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._jobs.put(None)
        self._thread.join()

    def _put(self, job: Job) -> None:
        with self._lock:
            if self._closed:
                raise ColibriError("the model is closed")
            self._jobs.put(job)

    def _run(self) -> None:
        while True:
            try:
                job = self._jobs.get(block=not self._engine.busy)
                if job is None:
                    break
                job()
            except Empty:
                try:
                    self._engine.step()
                except BaseException as error:
                    # A thread's edge: what nobody foresaw goes to whoever waits, and the engine
                    # lives.
                    self._engine.fail_all(error)
        self._engine.fail_all(ColibriError("the model was closed"))

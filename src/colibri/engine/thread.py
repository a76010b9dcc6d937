"""The one thread that owns the model. Others hand it requests and calls, and read the answers from
queues."""

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import TypeVar

from colibri.engine.engine import Engine
from colibri.engine.request import Call, Request
from colibri.engine.status import EngineStatus
from colibri.engine.watchdog import Watchdog
from colibri.errors import ColibriError

T = TypeVar("T")
Job = Callable[[], None]


class EngineThread:
    """`at_end` runs on the thread when it ends, after the last step: it frees what the model
    held. stall_seconds: after so long without progress requests end with an error; 0: never."""

    def __init__(
        self,
        engine: Engine,
        at_end: Callable[[], None] = lambda: None,
        stall_seconds: float = 0.0,
    ) -> None:
        self._engine: Engine | None = engine
        self._at_end = at_end
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._closed = False
        self._process = os.getpid()
        self._thread = threading.Thread(
            target=self._run, args=(engine,), name="colibri-engine", daemon=True
        )
        self._thread.start()
        self._watchdog = Watchdog(lambda: self._engine, stall_seconds)

    @property
    def engine(self) -> Engine:
        if self._engine is None:
            raise ColibriError("the model is closed")
        return self._engine

    def submit(self, request: Request, bounded: bool = False) -> None:
        """bounded: only if fewer wait than may. Raises QueueFullError."""
        engine = self.engine
        engine.enqueue(request, bounded)
        try:
            self._put(lambda: engine.submit(request))
        except ColibriError:
            engine.withdraw(request)
            raise

    def status(self) -> EngineStatus:
        """Of this moment; the engine goes on meanwhile."""
        return self.engine.status()

    def call(self, function: Callable[[], T], tokens: int) -> T:
        """Run `function` on the engine's thread between two steps, once there is room for the state
        of `tokens` positions; its result or its error."""
        engine = self.engine
        future: Future[T] = Future()

        def run() -> None:
            try:
                future.set_result(function())
            except BaseException as error:
                future.set_exception(error)

        call = Call(tokens, run, future.set_exception)
        self._put(lambda: engine.submit(call))
        return future.result()

    def close(self) -> None:
        """Requests still running end with an error."""
        if os.getpid() != self._process:
            return  # the thread, and all that it holds, is the parent's
        with self._lock:
            if not self._closed:
                self._closed = True
                self.engine.stop()  # before the thread can end, and take the engine with it
                self._jobs.put(None)
        self._watchdog.stop()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _put(self, job: Job) -> None:
        if os.getpid() != self._process:
            raise ColibriError(
                "the model was loaded before this process was forked, and its threads are in the "
                "parent: load it in this process"
            )
        with self._lock:
            if self._closed:
                raise ColibriError("the model is closed")
            self._jobs.put(job)

    def _run(self, engine: Engine) -> None:
        while self._serve(engine):
            pass
        engine.fail_all(ColibriError("the model was closed"))
        self._engine = None
        self._at_end()

    def _serve(self, engine: Engine) -> bool:
        """One job, or one step where there is none; False: the end was asked for.

        A method of its own, so that an idle thread holds nothing of the last job.
        """
        try:
            job = self._jobs.get(block=not engine.busy)
        except Empty:
            _step(engine)
            return True
        if job is not None:
            job()
        return job is not None


def _step(engine: Engine) -> None:
    try:
        engine.step()
    except BaseException as error:
        # A thread's edge: what nobody foresaw goes to whoever waits, and the engine lives.
        engine.fail_all(error)

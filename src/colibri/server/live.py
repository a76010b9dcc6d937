"""The bridge from the engine's thread to the event loop: events in, pieces of answers out."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from colibri.engine.request import Event, EventSink, Failed, PrefillProgress, Request
from colibri.errors import QueueFullError

if TYPE_CHECKING:
    from colibri.answer import Chunk
    from colibri.llm.leadin import Place
    from colibri.llm.scores import Scores

    Made = Chunk | Scores | tuple[Place, ...] | PrefillProgress

AT_ONCE = 16  # answers of one HTTP request in the engine's queue
_AGAIN_SECONDS = 0.25  # to ask again for room, while none of its own answers will tell of it


class Asked(Protocol):
    """An Answer, a LeadIn or a Scoring of the LLM."""

    request: Request
    finished: bool

    def push(self, event: Event, /) -> Made | None: ...


class Inbox:
    """Events of several answers in the order in which they came. One coroutine takes them out."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._events: deque[tuple[int, Event]] = deque()
        self._arrived = asyncio.Event()
        self._told = False  # the loop knows, or will

    def sink(self, index: int) -> EventSink:
        return _Sink(self, index)

    def put(self, index: int, event: Event) -> None:
        """From any thread; never waits."""
        self._events.append((index, event))
        if not self._told:
            self._told = True
            try:
                self._loop.call_soon_threadsafe(self._arrived.set)
            except RuntimeError:  # the loop has ended, and with it whoever waited
                return

    async def get(self, seconds: float) -> tuple[int, Event] | None:
        """None: nothing came in that time."""
        while not self._events:
            self._told = False
            self._arrived.clear()
            if self._events:
                break
            try:
                async with asyncio.timeout(seconds):
                    await self._arrived.wait()
            except TimeoutError:
                return None
        return self._events.popleft()


class _Sink:
    def __init__(self, inbox: Inbox, index: int) -> None:
        self._inbox, self._index = inbox, index

    def put(self, event: Event, /) -> None:
        self._inbox.put(self._index, event)


class Exchange:
    """All answers that one HTTP request asked for. `submit` queues one of them."""

    def __init__(
        self, asked: Sequence[Asked], inbox: Inbox, submit: Callable[[Asked], None]
    ) -> None:
        self.asked = asked
        self._inbox = inbox
        self._submit = submit
        self._later = deque(asked)
        self._in_flight = 0

    def start(self) -> None:
        """Raises QueueFullError if there is room for none."""
        try:
            full = self._submit_more()
            if full is not None and self._in_flight == 0:
                raise full
        except BaseException:
            self.cancel()
            raise

    def cancel(self) -> None:
        for asked in self.asked:
            asked.request.cancel()

    def abort(self, error: BaseException) -> None:
        """Every answer that is not whole ends with this error."""
        self.cancel()
        for index, asked in enumerate(self.asked):
            if not asked.finished:
                self._inbox.put(index, Failed(error))

    async def events(self, seconds: float) -> AsyncIterator[tuple[int, Made] | None]:
        """(index of the answer, what it adds); None after so many seconds without anything. Raises
        the error that ended an answer; leaving early cancels them all."""
        try:
            while not all(asked.finished for asked in self.asked):
                waits = self._in_flight == 0  # others took the room that its answers left
                taken = await self._inbox.get(_AGAIN_SECONDS if waits else seconds)
                if taken is None:
                    self._submit_more()
                    yield None
                    continue
                index, event = taken
                asked = self.asked[index]
                if asked.finished:
                    continue
                made = asked.push(event)
                if made is not None:
                    yield index, made
                if asked.finished:
                    self._in_flight -= 1
                    self._submit_more()
        finally:
            self.cancel()

    def _submit_more(self) -> QueueFullError | None:
        """What there is room for; the refusal where there is none."""
        while self._later and self._in_flight < AT_ONCE:
            try:
                self._submit(self._later[0])
            except QueueFullError as full:
                return full
            self._later.popleft()
            self._in_flight += 1
        return None

"""The bridge: events put by one thread, taken by the event loop; many answers of one request."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from colibri.engine.request import Finished, Request, Token
from colibri.errors import QueueFullError, ReadError
from colibri.sampling import SamplingParams
from colibri.server.live import AT_ONCE, Exchange, Inbox


class Asked:
    """An answer that is over with its Finished event."""

    def __init__(self) -> None:
        self.request = Request([1], SamplingParams())
        self.finished = False

    def push(self, event: Any) -> Any:
        self.finished = isinstance(event, Finished)
        if hasattr(event, "error"):
            raise event.error
        return event


def run(work: Callable[[asyncio.AbstractEventLoop], Any]) -> Any:
    async def main() -> Any:
        return await work(asyncio.get_running_loop())

    return asyncio.run(main())


def test_events_of_a_thread_come_in_order_and_none_is_lost() -> None:
    async def work(loop: asyncio.AbstractEventLoop) -> list[Any]:
        inbox = Inbox(loop)
        sink = inbox.sink(3)

        def put() -> None:
            for i in range(5000):
                sink.put(Token(i, None, ()))

        thread = threading.Thread(target=put)
        thread.start()
        taken = [await inbox.get(10) for _ in range(5000)]
        thread.join()
        assert await inbox.get(0.01) is None
        return taken

    assert [(i, event.id) for i, event in run(work)] == [(3, i) for i in range(5000)]


def test_an_event_after_the_end_of_the_loop_disturbs_nobody() -> None:
    async def work(loop: asyncio.AbstractEventLoop) -> Inbox:
        return Inbox(loop)

    inbox = run(work)
    inbox.put(0, Finished("stop"))


def exchange_of(asked: list[Asked], submit: Any) -> Any:
    async def work(loop: asyncio.AbstractEventLoop) -> list[Any]:
        inbox = Inbox(loop)
        exchange = Exchange(asked, inbox, lambda one: submit(one, inbox))
        exchange.start()
        return [event async for event in exchange.events(5)]

    return run(work)


def test_many_answers_are_queued_a_few_at_a_time() -> None:
    asked, in_flight, most = [Asked() for _ in range(50)], 0, 0

    def submit(one: Asked, inbox: Inbox) -> None:
        nonlocal in_flight, most
        in_flight += 1
        most = max(most, in_flight)

        def finish() -> None:
            nonlocal in_flight
            in_flight -= 1
            inbox.put(asked.index(one), Finished("stop"))

        asyncio.get_running_loop().call_later(0.001, finish)

    assert len(exchange_of(asked, submit)) == 50
    assert most == AT_ONCE


def test_a_queue_with_room_for_some_takes_the_rest_later() -> None:
    asked, room = [Asked() for _ in range(9)], 2

    def submit(one: Asked, inbox: Inbox) -> None:
        nonlocal room
        if room == 0:
            raise QueueFullError("full", 1)
        room -= 1

        def finish() -> None:
            nonlocal room
            room += 1
            inbox.put(asked.index(one), Finished("stop"))

        asyncio.get_running_loop().call_later(0.001, finish)

    assert len(exchange_of(asked, submit)) == 9


def test_work_that_is_done_is_not_lost_because_others_fill_the_queue() -> None:
    asked, room = [Asked() for _ in range(AT_ONCE + 3)], AT_ONCE

    def submit(one: Asked, inbox: Inbox) -> None:
        nonlocal room
        if room == 0:
            raise QueueFullError("full", 1)
        room -= 1
        loop = asyncio.get_running_loop()
        loop.call_later(0.001, inbox.put, asked.index(one), Finished("stop"))
        if room == 0:  # long after all of its own have ended

            def others_left() -> None:
                nonlocal room
                room = AT_ONCE

            loop.call_later(0.1, others_left)

    ended = [event for event in exchange_of(asked, submit) if event is not None]
    assert len(ended) == len(asked)


def test_a_full_queue_refuses_and_leaves_nothing_running() -> None:
    asked = [Asked(), Asked()]

    def submit(one: Asked, inbox: Inbox) -> None:
        raise QueueFullError("full", 1)

    with pytest.raises(QueueFullError):
        exchange_of(asked, submit)
    assert all(one.request.cancelled for one in asked)


@pytest.mark.parametrize("error", [ReadError("x"), ValueError("y")])
def test_one_failure_ends_all(error: Exception) -> None:
    asked = [Asked(), Asked()]

    def submit(one: Asked, inbox: Inbox) -> None:
        if one is asked[1]:
            inbox.put(1, SimpleNamespace(error=error))  # type: ignore[arg-type]

    with pytest.raises(type(error)):
        exchange_of(asked, submit)
    assert all(one.request.cancelled for one in asked)


def test_silence_is_told() -> None:
    async def work(loop: asyncio.AbstractEventLoop) -> Any:
        exchange = Exchange([Asked()], Inbox(loop), lambda _asked: None)
        exchange.start()
        return await anext(exchange.events(0.01))

    assert run(work) is None

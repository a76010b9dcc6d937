"""Answers on their way to the client: whole or as server-sent events, as long as it is there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import aclosing
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from colibri.container.jsonfile import encode_json

T = TypeVar("T")
Frames = Callable[[], AsyncIterator[bytes]]


class ClientGone(Exception):
    """Nobody is there to be answered."""


def data(value: Any) -> bytes:
    return b"data: " + encode_json(value) + b"\n\n"


def event(name: str, value: Any, event_id: str = "") -> bytes:
    """event_id: what a client that lost the stream says to go on from."""
    head = f"id: {event_id}\n" if event_id else ""
    return f"{head}event: {name}\n".encode() + data(value)


def comment(value: Any) -> bytes:
    """Ignored by whoever reads events; a sign of life all the same."""
    return b": " + encode_json(value) + b"\n\n"


DONE = b"data: [DONE]\n\n"


async def unless_gone(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, which is cancelled when the client leaves. The body was read."""
    return await _first(work, request.receive)


class EventStream(Response):
    """Server-sent events; `frames` end by themselves, also after an error."""

    media_type = "text/event-stream"

    def __init__(self, frames: Frames, headers: dict[str, str]) -> None:
        self._frames = frames
        self.background = None
        self.status_code = 200
        # A proxy that gathers before it passes on would hide what a stream is for.
        own = {"cache-control": "no-cache", "x-accel-buffering": "no"}
        self.body = b""
        self.init_headers(own | headers)
        self.raw_headers = [h for h in self.raw_headers if h[0] != b"content-length"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await _first(self._send(send), receive)

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        async with aclosing(self._frames()) as frames:  # type: ignore[type-var]
            async for frame in frames:
                await send({"type": "http.response.body", "body": frame, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _first(work: Coroutine[Any, Any, T], receive: Callable[[], Awaitable[Any]]) -> T:
    """`work` against the client's patience. Raises ClientGone; then `work` has ended as well."""
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_left(receive))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise ClientGone
    finally:
        for task in (working, leaving):
            task.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)


async def _left(receive: Callable[[], Awaitable[Any]]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass

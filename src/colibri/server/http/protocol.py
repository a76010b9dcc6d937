"""uvicorn's HTTP/1.1, with an end to patience: a request's head, or a body that nobody wants any
more, has to arrive in time."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import h11
from uvicorn.config import Config

from colibri.server.http.crowd import ACCEPTED_AT_ONCE, Room
from colibri.server.http.errors import ApiError
from colibri.server.http.halfopen import HalfOpenProtocol


def protocol_class(head_seconds: float, room: Room) -> type[asyncio.Protocol]:
    class Impatient(HalfOpenProtocol):
        _timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            # For whoever has to end a connection whose client does not read, and to count them.
            own = {"abort": transport.abort, "connections": self.connections}
            self.app_state = {**self.app_state, **own}
            if len(self.connections) > room.most + room.spare:
                transport.abort()
            else:
                self._watch()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._watch()

        def send_400_response(self, msg: str) -> None:
            """For what is no HTTP. Where an answer has begun, nothing can be said beside it; and
            whoever was about to answer has nobody to answer."""
            if self.cycle is not None and not self.cycle.response_complete:
                self.cycle.disconnected = True
                self.cycle.message_event.set()
            if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
                self.transport.write(_not_http(self.conn))
            if self.conn.our_state is h11.SEND_BODY:
                self.transport.abort()
            else:
                self.transport.close()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self._watch()

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            self._unwatch()

        def _watch(self) -> None:
            """Once begun, the wait is not prolonged by a byte now and then."""
            if not self._is_waiting():
                self._unwatch()
            elif self._timer is None:
                self._timer = self.loop.call_later(head_seconds, self._give_up)

        def _is_waiting(self) -> bool:
            theirs, ours = self.conn.their_state, self.conn.our_state
            return theirs is h11.IDLE or (theirs is h11.SEND_BODY and ours is h11.DONE)

        def _unwatch(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

        def _give_up(self) -> None:
            self._timer = None
            if self._is_waiting() and not self.transport.is_closing():
                self.transport.abort()

    return Impatient


def _not_http(conn: h11.Connection) -> bytes:
    body = ApiError(400, "what was sent is no HTTP/1.1 request").openai()
    headers = [
        ("content-type", "application/json"),
        ("content-length", str(len(body))),
        ("connection", "close"),
    ]
    head = conn.send(h11.Response(status_code=400, headers=headers, reason=b"Bad Request"))
    said = conn.send(h11.Data(data=body))
    end = conn.send(h11.EndOfMessage())
    return b"".join(part or b"" for part in (head, said, end))


def uvicorn_config(app: Any, head_seconds: float, room: Room) -> Config:
    return Config(
        app,
        http=cast(Any, protocol_class(head_seconds, room)),
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=30,
        backlog=ACCEPTED_AT_ONCE,
    )

"""A client that has sent its request and closes that side of its socket still gets its answer.

On the wire it looks like one that has left: both send a FIN. The difference shows when something is
written to them: the socket of one that has left answers with a reset. What is written to a client
that waits for its response to begin is `100 Continue`, which every client of HTTP/1.1 skips; in a
stream it is the stream itself.
"""

from __future__ import annotations

import asyncio
import socket

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

_FIRST_SECONDS = 0.05  # the reset of a client nearby is there by then
_MOST_SECONDS = 1.0


class HalfOpenProtocol(H11Protocol):
    _probe: asyncio.TimerHandle | None = None
    _half_open = False

    def eof_received(self) -> bool:  # type: ignore[override]
        """Whether the connection stays open for the answer."""
        if not self._is_answering():
            return False
        if not self._half_open:
            self._half_open = True
            self._ask(_FIRST_SECONDS)
        return True

    def on_response_complete(self) -> None:
        super().on_response_complete()
        # Of several requests on the way the next one may have begun; more than these cannot come.
        if self._half_open and self.cycle.response_complete and not self.transport.is_closing():
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._probe is not None:
            self._probe.cancel()
            self._probe = None
        super().connection_lost(exc)

    def _is_answering(self) -> bool:
        """A whole request is here, and of a kind of client that lets itself be asked."""
        cycle = self.cycle
        if cycle is None or cycle.response_complete or cycle.more_body:
            return False
        return cycle.response_started or cycle.scope["http_version"] == "1.1"

    def _ask(self, seconds: float) -> None:
        """Whether it is still there: the reset is seen the next time, at the latest."""
        self._probe = None
        if self.transport.is_closing():
            return
        if _was_reset(self.transport):
            self.transport.abort()
            return
        if self.conn.our_state is h11.SEND_RESPONSE:
            waits = h11.InformationalResponse(status_code=100, headers=[], reason=b"Continue")
            self.transport.write(self.conn.send(waits) or b"")
        later = min(2 * seconds, _MOST_SECONDS)
        self._probe = self.loop.call_later(seconds, self._ask, later)


def _was_reset(transport: asyncio.Transport) -> bool:
    sock = transport.get_extra_info("socket")
    return bool(sock is not None and sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))

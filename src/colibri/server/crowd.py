"""More connections than the server takes: whoever asks over one is told to come again, and the
connection ends."""

from __future__ import annotations

import asyncio
import contextlib

from starlette.types import Receive, Scope

from colibri.server.errors import ApiError

_AFTER_SECONDS = 1  # to come again: connections come and go faster than answers end
_DRAIN_SECONDS = 1.0  # for a body that nobody wants: unread, it would reset what is answered


async def check_crowd(scope: Scope, receive: Receive, most: int) -> None:
    """Raises ApiError where there are more than `most` connections."""
    connections = scope.get("state", {}).get("connections", ())
    if len(connections) <= most:
        return
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_DRAIN_SECONDS):
            while (await receive()).get("more_body", False):
                pass
    raise ApiError(
        503,
        f"more than {most} connections are open, the most that this server takes at a time",
        code="too_many_connections",
        headers={"connection": "close", "retry-after": str(_AFTER_SECONDS)},
    )

"""More connections than the server takes: whoever asks over one is told to come again, and the
connection ends."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field

from starlette.types import Receive, Scope

from colibri.server.http.errors import ApiError
from colibri.words import count_are

# Beyond the most connections, in which requests are refused with a word; more are dropped. A
# process has 1024 descriptors unless told otherwise, and without any asyncio only writes logs.
SPARE_CONNECTIONS = 64
ACCEPTED_AT_ONCE = 16  # before any of them can be refused: a burst takes no more descriptors
_AFTER_SECONDS = 1  # to come again: connections come and go faster than answers end
_DRAIN_SECONDS = 1.0  # for a body that nobody wants: unread, it would reset what is answered


@dataclass
class Room:
    """For connections. most: in which requests are answered. spare: in which they are refused."""

    most: int
    spare: int = SPARE_CONNECTIONS
    wished: int = field(init=False)

    def __post_init__(self) -> None:
        self.wished = self.most

    @property
    def whole(self) -> int:
        """As many as are wished for."""
        return self.wished + SPARE_CONNECTIONS

    def fit(self, descriptors: int | None) -> bool:
        """Makes do with so many descriptors: a model may need nearly all that the process may
        have. Whether that is less than what was wished for."""
        room = self.whole if descriptors is None else max(2, min(descriptors, self.whole))
        self.spare = min(SPARE_CONNECTIONS, max(1, room // 4))
        self.most = min(self.wished, room - self.spare)
        return room < self.whole


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
        f"more than {count_are(most, 'connection')} open, the most that this server takes at "
        "a time",
        code="too_many_connections",
        headers={"connection": "close", "retry-after": str(_AFTER_SECONDS)},
    )

"""Answers that are JSON."""

from __future__ import annotations

import msgspec
from starlette.responses import Response


class Json(Response):
    """Of a struct, or whatever else msgspec encodes."""

    media_type = "application/json"

    def render(self, content: object) -> bytes:
        return msgspec.json.encode(content)

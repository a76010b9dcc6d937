"""Answers that are JSON."""

from __future__ import annotations

from starlette.responses import Response

from colibri.container.jsonfile import encode_json


class Json(Response):
    """Of a struct, or whatever else msgspec encodes."""

    media_type = "application/json"

    def render(self, content: object) -> bytes:
        return encode_json(content)

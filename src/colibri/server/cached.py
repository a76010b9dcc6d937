"""What a browser keeps and asks for again: with a tag, and packed for whoever takes that."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Mapping
from functools import cached_property

from starlette.requests import Request
from starlette.responses import Response

from colibri.server.service import Service

_HEADERS = {
    # Kept, and asked for every time: a new version is seen at once, an old one costs no bytes.
    "cache-control": "no-cache",
    "vary": "accept-encoding",
}


class Cached:
    def __init__(self, content: bytes) -> None:
        self.content = content
        self.etag = f'W/"{hashlib.sha256(content).hexdigest()[:24]}"'

    @cached_property
    def packed(self) -> bytes:
        return gzip.compress(self.content, 9, mtime=0)

    async def respond(
        self, request: Request, service: Service, media_type: str, headers: Mapping[str, str]
    ) -> Response:
        """304 where the client has it."""
        all_headers = {**_HEADERS, **headers, "etag": self.etag}
        if self.etag in _tags(request.headers.get("if-none-match", "")):
            return Response(status_code=304, headers=all_headers)
        content = self.content
        if _takes_gzip(request.headers.get("accept-encoding", "")):
            all_headers["content-encoding"] = "gzip"
            content = await service.work(lambda: self.packed)
        return Response(content, headers=all_headers, media_type=media_type)


def _tags(header: str) -> set[str]:
    return {tag.strip() for tag in header.split(",")}


def _takes_gzip(header: str) -> bool:
    for part in header.lower().split(","):
        coding, _, quality = part.partition(";")
        if coding.strip() == "gzip":
            return quality.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False

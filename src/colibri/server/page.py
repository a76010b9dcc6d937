"""The dashboard's files, for a server that `coli web` started: GET / and what that page asks for.

They hold nothing of the model and so need no key; what they show is asked of the API, with the key.
"""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from colibri.server.service import Service

STATIC = "/static/"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".json": "application/json",
    ".txt": "text/plain; charset=utf-8",
    ".bin": "application/octet-stream",
}
# Scripts and styles from files here only: markup that slips through the sanitiser runs nothing.
_POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "form-action 'none'",
    ]
)
_HEADERS = {
    "content-security-policy": _POLICY,
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    # Kept, and asked for every time: a new version is seen at once, an old one costs no bytes.
    "cache-control": "no-cache",
    "vary": "accept-encoding",
}


def is_page(path: str) -> bool:
    """Whether a path is one of the page's, for which no key is asked."""
    return path == "/" or path.startswith(STATIC)


@dataclass(frozen=True)
class _File:
    """stamp: of the file on disk, which a developer may have edited."""

    stamp: tuple[int, int]
    etag: str
    content: bytes
    packed: bytes


class Page:
    """The files below a folder, read and compressed at their first use."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or Path(str(files("colibri") / "web" / "static"))
        found = (path for path in self._folder.rglob("*") if path.suffix in _TYPES)
        self._paths = {path.relative_to(self._folder).as_posix(): path for path in found}
        self._kept: dict[str, _File] = {}

    async def index(self, request: Request, service: Service) -> Response:
        return await self._respond("index.html", request, service)

    async def file(self, request: Request, service: Service) -> Response:
        return await self._respond(request.path_params["path"], request, service)

    async def _respond(self, name: str, request: Request, service: Service) -> Response:
        if name not in self._paths:  # a name, never a way through the file system
            raise HTTPException(404)
        file = await service.work(lambda: self._read(name))
        headers = {**_HEADERS, "etag": file.etag}
        if file.etag in _tags(request.headers.get("if-none-match", "")):
            return Response(status_code=304, headers=headers)
        content = file.content
        if _takes_gzip(request.headers.get("accept-encoding", "")):
            headers["content-encoding"] = "gzip"
            content = file.packed
        return Response(content, headers=headers, media_type=_TYPES[self._paths[name].suffix])

    def _read(self, name: str) -> _File:
        status = self._paths[name].stat()
        stamp = (status.st_mtime_ns, status.st_size)
        kept = self._kept.get(name)
        if kept is None or kept.stamp != stamp:
            content = self._paths[name].read_bytes()
            etag = f'W/"{hashlib.sha256(content).hexdigest()[:24]}"'
            kept = _File(stamp, etag, content, gzip.compress(content, 9, mtime=0))
            self._kept[name] = kept
        return kept


def _tags(header: str) -> set[str]:
    return {tag.strip() for tag in header.split(",")}


def _takes_gzip(header: str) -> bool:
    for part in header.lower().split(","):
        coding, _, quality = part.partition(";")
        if coding.strip() == "gzip":
            return quality.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False

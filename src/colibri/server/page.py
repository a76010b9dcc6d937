"""The dashboard's files, for a server that `coli web` started: GET / and what that page asks for.

They hold nothing of the model and so need no key; what they show is asked of the API, with the key.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from colibri.server.cached import Cached
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
}


def is_page(path: str) -> bool:
    """Whether a path is one of the page's, for which no key is asked."""
    return path == "/" or path.startswith(STATIC)


class Page:
    """The files below a folder, read and compressed at their first use."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or Path(str(files("colibri") / "web" / "static"))
        found = (path for path in self._folder.rglob("*") if path.suffix in _TYPES)
        self._paths = {path.relative_to(self._folder).as_posix(): path for path in found}
        # By the file's stamp, which a developer may have edited.
        self._kept: dict[str, tuple[tuple[int, int], Cached]] = {}

    async def index(self, request: Request, service: Service) -> Response:
        return await self._respond("index.html", request, service)

    async def file(self, request: Request, service: Service) -> Response:
        return await self._respond(request.path_params["path"], request, service)

    async def _respond(self, name: str, request: Request, service: Service) -> Response:
        if name not in self._paths:  # a name, never a way through the file system
            raise HTTPException(404)
        file = await service.work(lambda: self._read(name))
        media_type = _TYPES[self._paths[name].suffix]
        return await file.respond(request, service, media_type, _HEADERS)

    def _read(self, name: str) -> Cached:
        status = self._paths[name].stat()
        stamp = (status.st_mtime_ns, status.st_size)
        if name not in self._kept or self._kept[name][0] != stamp:
            self._kept[name] = stamp, Cached(self._paths[name].read_bytes())
        return self._kept[name][1]

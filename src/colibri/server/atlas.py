"""GET /v1/colibri/atlas: which topics each expert is for, if that was measured."""

from __future__ import annotations

import os
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from colibri.container.jsonfile import encode_json
from colibri.experts.usage.file import Subject
from colibri.lab.atlas.file import find_atlas, read_atlas
from colibri.server.cached import Cached
from colibri.server.errors import ApiError
from colibri.server.service import Service


async def atlas(request: Request, service: Service) -> Response:
    """The file as `coli atlas build` wrote it, checked. 404: there is none for this model."""
    found = await service.work(lambda: Cached(_found(service)))
    return await found.respond(request, service, "application/json", {})


def _found(service: Service) -> bytes:
    container = service.llm.container
    subject = Subject.of_model(container)
    path = find_atlas(container.path, subject, os.environ)
    if path is None:
        raise ApiError(404, _absent(container.path), code="no_atlas")
    return encode_json(read_atlas(path, subject))


def _absent(model: Path) -> str:
    return f"this model has no atlas yet; make one with: coli atlas build {model}"

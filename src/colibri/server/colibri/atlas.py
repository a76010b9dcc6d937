"""GET /v1/colibri/atlas: which topics each expert is for, if that was measured. POST
/v1/colibri/atlas/build measures it, and tells how far it is."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response

from colibri.container.jsonfile import encode_json
from colibri.errors import CapacityError, ConfigError, ContainerError
from colibri.experts.usage.file import Subject
from colibri.lab.atlas.build import Build, obstacle
from colibri.lab.atlas.file import default_path, find_atlas, prepare, read_atlas, write_atlas
from colibri.lab.atlas.topics import own_prompts, read_topics
from colibri.server.cached import Cached
from colibri.server.http import stream
from colibri.server.http.errors import ApiError, as_api_error
from colibri.server.http.stream import EventStream
from colibri.server.service import Service

if TYPE_CHECKING:
    from colibri.llm import LLM

EVERY_SECONDS = 1.0  # between two signs of life, at most
_POLL_SECONDS = 0.25  # for the end of answers


async def atlas(request: Request, service: Service) -> Response:
    """The file as `coli atlas build` wrote it, checked. 404: there is none for this model."""
    found = await service.work(lambda: Cached(_found(service)))
    return await found.respond(request, service, "application/json", {})


def _found(service: Service) -> bytes:
    llm = service.llm
    subject = Subject.of_model(llm.container)
    path = find_atlas(llm.container.path, subject, os.environ)
    if path is None:
        raise _absent(llm)
    try:
        return encode_json(read_atlas(path, subject))
    except (ConfigError, ContainerError) as error:
        raise ApiError(500, str(error), code="atlas_unreadable") from error


def _absent(llm: LLM) -> ApiError:
    if problem := obstacle(llm):
        return ApiError(404, problem, code="atlas_impossible")
    says = f"this model has no atlas yet; make one with: coli atlas build {llm.container.path}"
    return ApiError(404, says, code="no_atlas")


async def build(_request: Request, service: Service) -> Response:
    """Events: `progress` as long as prompts are read, then `done` or `error`. A client that leaves
    ends it, and the file is as it was. 409: it is being done."""
    _check_free(service)
    llm = service.llm
    making, path = await service.work(lambda: _prepared(llm))

    async def frames() -> AsyncIterator[bytes]:
        try:
            async with aclosing(_progress(service, making)) as told:  # type: ignore[type-var]
                async for progress in told:
                    yield stream.event("progress", progress)
            await asyncio.to_thread(_write, path, making)
        except Exception as error:  # the headers are gone: here is where a stream tells its errors
            refusal = as_api_error(error).without_places(service.places())
            yield stream.event("error", {"message": refusal.message, "code": refusal.code})
            return
        yield stream.event("done", {"prompts": making.done})

    return EventStream(frames, {})


def _prepared(llm: LLM) -> tuple[Build, Path]:
    """What can be refused is refused before the work."""
    making = Build(llm, read_topics(own_prompts()))
    subject, embedded = Subject.of_model(llm.container), llm.config.model is None
    path = default_path(llm.container.path, subject, os.environ, embedded=embedded)
    with _unwritable():
        prepare(path)
    return making, path


def _write(path: Path, making: Build) -> None:
    atlas = making.atlas()
    with _unwritable():
        write_atlas(path, atlas)


@contextmanager
def _unwritable() -> Iterator[None]:
    """That the place of the file is of no use is no fault of the client."""
    try:
        yield
    except (ConfigError, ContainerError, CapacityError) as error:
        raise ApiError(500, str(error), code="atlas_unwritable") from error


async def _progress(service: Service, making: Build) -> AsyncIterator[dict[str, Any]]:
    """Reads all prompts. Answers come first: a prompt is begun only while none is being made."""
    llm, seconds = service.llm, 0.0
    with _building(service):
        while making.done < making.of:
            if service.state != "ready":
                raise service.unready()
            if _answering(service, llm):
                yield _told("waiting", making, seconds)
                await asyncio.sleep(_POLL_SECONDS)
                continue
            begun = time.monotonic()
            async with aclosing(_one_prompt(service, making)) as waits:  # type: ignore[type-var]
                async for _ in waits:
                    yield _told("reading", making, seconds)
            seconds += time.monotonic() - begun
        yield _told("reading", making, seconds)


async def _one_prompt(service: Service, making: Build) -> AsyncIterator[None]:
    """Something at least every EVERY_SECONDS, until it is read."""
    reading = asyncio.ensure_future(asyncio.to_thread(making.read_next))
    try:
        while not reading.done():
            yield
            await asyncio.wait({reading}, timeout=EVERY_SECONDS)
            if service.state != "ready":
                raise service.unready()
        reading.result()
    finally:
        if not reading.done():
            making.cancel()
            await asyncio.wait({reading})
        reading.exception()  # whatever it was, nobody waits for it any more


def _told(state: str, making: Build, seconds: float) -> dict[str, Any]:
    """seconds: that reading took so far."""
    left = seconds / making.done * (making.of - making.done) if making.done else None
    return {
        "state": state,
        "prompts_done": making.done,
        "prompts_total": making.of,
        "eta_seconds": None if left is None else round(left, 1),
    }


def _answering(service: Service, llm: LLM) -> bool:
    status = llm.status()
    return bool(status.running or status.waiting or service.measuring)


@contextmanager
def _building(service: Service) -> Iterator[None]:
    _check_free(service)
    service.building = True
    try:
        yield
    finally:
        service.building = False


def _check_free(service: Service) -> None:
    if service.building:
        raise ApiError(409, "the atlas of this model is being built already", code="building")

"""The application: which path leads where, behind the guard."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router
from starlette.types import Receive, Scope, Send

from colibri.server import health, openapi
from colibri.server.anthropic import messages
from colibri.server.colibri import atlas, overview, routing, score
from colibri.server.colibri import state as colibri
from colibri.server.guard import LIVENESS, STOP, Guard
from colibri.server.openai import chat, completions, models
from colibri.server.page import STATIC, Page
from colibri.server.service import Service

Endpoint = Callable[[Request, Service], Awaitable[Response]]

# Path, method, endpoint, name in logs and metrics.
ROUTES: tuple[tuple[str, str, Endpoint, str], ...] = (
    ("/v1/models", "GET", models.models, "models"),
    ("/v1/models/{id:path}", "GET", models.model, "models"),
    ("/v1/chat/completions", "POST", chat.complete, "chat"),
    ("/v1/completions", "POST", completions.complete, "completions"),
    ("/v1/messages", "POST", messages.create, "messages"),
    ("/v1/messages/count_tokens", "POST", messages.count_tokens, "count_tokens"),
    ("/v1/score", "POST", score.score, "score"),
    ("/v1/brio", "POST", score.score, "score"),
    ("/v1/colibri/plan", "GET", colibri.plan, "plan"),
    ("/v1/colibri/model", "GET", overview.model, "model"),
    ("/v1/colibri/rates", "POST", overview.measure, "rates"),
    ("/v1/colibri/experts", "GET", colibri.experts, "experts"),
    ("/v1/colibri/atlas", "GET", atlas.atlas, "atlas"),
    ("/v1/colibri/atlas/build", "POST", atlas.build, "atlas"),
    ("/v1/colibri/profile", "GET", colibri.profile, "profile"),
    ("/v1/colibri/events", "GET", colibri.events, "events"),
    ("/v1/colibri/routing", "GET", routing.routing, "routing"),
    (STOP, "POST", health.stop, "stop"),
    (LIVENESS, "GET", health.live, "health"),
    ("/health/ready", "GET", health.ready, "health"),
    ("/health", "GET", health.health, "health"),
    ("/metrics", "GET", health.metrics, "metrics"),
    ("/openapi.json", "GET", openapi.description, "openapi"),
)


class Application:
    """What uvicorn calls."""

    def __init__(self, service: Service) -> None:
        self.service = service
        table = [*ROUTES, *(_page_routes() if service.config.page else ())]
        routes = [
            Route(path, _bound(endpoint, service, name), methods=[method])
            for path, method, endpoint, name in table
        ]
        self._router = Router(routes, redirect_slashes=False, default=_nothing_there)
        self._guarded = Guard(self._route, service)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._guarded(scope, receive, send)

    async def _route(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["app"] = self  # the router then raises instead of answering itself
        await self._router(scope, receive, send)


def _page_routes() -> Iterator[tuple[str, str, Endpoint, str]]:
    page = Page()
    yield "/", "GET", page.index, "page"
    yield STATIC + "{path:path}", "GET", page.file, "page"


def _bound(endpoint: Endpoint, service: Service, name: str) -> Callable[[Request], Any]:
    async def call(request: Request) -> Response:
        request.scope["colibri_route"] = name
        return await endpoint(request, service)

    return call


async def _nothing_there(_scope: Scope, _receive: Receive, _send: Send) -> None:
    raise HTTPException(404)

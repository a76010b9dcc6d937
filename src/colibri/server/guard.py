"""What every request passes first: by which name the server was called, from which page, with which
key. And the one place where an exception becomes a response."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import logging
import secrets
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from colibri.server import log
from colibri.server.http.crowd import check_crowd
from colibri.server.http.errors import ApiError, as_api_error
from colibri.server.http.stream import ClientGone
from colibri.server.log import Record
from colibri.server.page import is_page
from colibri.server.service import Service

logger = logging.getLogger("colibri.server")

LIVENESS = "/health/live"
HEALTH = ("/health", LIVENESS, "/health/ready")
STOP = "/v1/colibri/stop"  # which asks for a secret of its own (health.py)
_LOCAL = ("localhost", "127.0.0.1", "::1")
_GONE = 499  # as others log a client that left; it is never sent


class Guard:
    """An ASGI application around another one."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        config = service.config
        self._app, self._service = app, service
        self._key = config.api_key.encode() if config.api_key is not None else None
        self._origins = frozenset(config.cors_origin)
        self._hosts = frozenset({*_LOCAL, config.host.lower(), *config.allowed_host})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise RuntimeError(f"no {scope['type']} here")
        exchange = _Exchange(scope, self._service, send)
        try:
            await self._answer(scope, receive, exchange)
        except ClientGone:
            exchange.status = _GONE
        except Exception as error:  # a request's edge: whatever happens inside, the server goes on
            await exchange.fail(error)
        finally:
            exchange.log()

    async def _answer(self, scope: Scope, receive: Receive, exchange: _Exchange) -> None:
        headers = Headers(scope=scope)
        self._check_host(headers, scope["path"])
        origin = headers.get("origin")
        if origin is not None:
            self._check_origin(origin, headers)
            exchange.allow_origin(origin)
            if _is_preflight(scope, headers):
                await _preflight(headers)(scope, receive, exchange.send)
                return
        if scope["path"] not in (LIVENESS, STOP):
            await check_crowd(scope, receive, self._service.room.most)
        if not self._is_open(scope["path"]):
            self._check_key(headers)
        await self._app(scope, receive, exchange.send)

    def _is_open(self, path: str) -> bool:
        return path in (LIVENESS, STOP) or (self._service.config.page and is_page(path))

    def _check_host(self, headers: Headers, path: str) -> None:
        """A page of any site can have its name point here, and then be one origin with us; such a
        name is none of ours. An address is no name. A probe of HTTP/1.0 may give none; browsers
        always do."""
        if "host" not in headers and path in HEALTH:
            return
        host = _host_of(headers.get("host", ""))
        if "*" in self._hosts or host in self._hosts or _is_address(host):
            return
        raise ApiError(
            403,
            f"the host {host[:100]!r} is not one that this server was told to answer to: start it "
            f"with --allowed-host {host[:100] or 'NAME'}",
            code="host_not_allowed",
        )

    def _check_origin(self, origin: str, headers: Headers) -> None:
        """Exactly those that were given, and the server's own pages."""
        host = headers.get("host", "").lower()
        own = (f"http://{host}", f"https://{host}")  # the latter behind somebody's proxy
        if origin.lower() in self._origins or (host and origin.lower() in own):
            return
        raise ApiError(
            403,
            f"pages of {origin[:100]!r} may not call this server: start it with --cors-origin "
            f"{origin[:100]}",
            code="origin_not_allowed",
        )

    def _check_key(self, headers: Headers) -> None:
        if self._key is None:
            return
        scheme, _, token = headers.get("authorization", "").partition(" ")
        given = token.strip() if scheme.lower() == "bearer" else headers.get("x-api-key", "")
        if not hmac.compare_digest(given.encode("latin-1", "replace"), self._key):
            what = "is not the one this server asks for" if given else "is missing"
            raise ApiError(
                401,
                f"the API key {what}: send Authorization: Bearer KEY, or X-Api-Key: KEY",
                code="invalid_api_key",
                headers={"www-authenticate": "Bearer"},
            )


class _Exchange:
    """One request and its response, as seen from outside."""

    def __init__(self, scope: Scope, service: Service, send: Send) -> None:
        self.status = 0
        self._scope, self._service, self._send = scope, service, send
        self._timeout = service.config.write_timeout
        self._origin: str | None = None
        self._ended = False
        wants_text = service.config.log_prompts == "on"
        self._record = Record(f"req_{secrets.token_hex(12)}", wants_text)
        scope["colibri"] = self._record

    def allow_origin(self, origin: str) -> None:
        self._origin = origin

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            headers["x-request-id"] = headers["request-id"] = self._record.request_id
            headers["x-content-type-options"] = "nosniff"
            if self._origin is not None:
                headers["access-control-allow-origin"] = self._origin
                headers["access-control-expose-headers"] = "x-request-id, x-colibri-notice"
                headers.add_vary_header("origin")
        elif message["type"] == "http.response.body":
            self._ended = not message.get("more_body", False)
        try:
            async with asyncio.timeout(self._timeout):
                await self._send(message)
        except TimeoutError:
            self._abort()
            raise ClientGone from None
        except OSError:
            raise ClientGone from None

    async def fail(self, error: Exception) -> None:
        if self.status:
            # Nothing can be put into what has begun; only its end can say that it is not whole.
            log.fault(f"{self._record.request_id} broke off", error)
            self._abort()
            return
        refusal = _refusal(error)
        self._record.failed(refusal)
        path = self._scope["path"]
        refusal = refusal.without_places(self._service.places())
        body = refusal.anthropic() if path.startswith("/v1/messages") else refusal.openai()
        response = Response(body, refusal.status, refusal.headers, "application/json")
        try:
            await self.send(
                {
                    "type": "http.response.start",
                    "status": refusal.status,
                    "headers": response.raw_headers,
                }
            )
            head = self._scope["method"] == "HEAD"
            await self.send({"type": "http.response.body", "body": b"" if head else body})
        except ClientGone:
            self.status = _GONE

    def log(self) -> None:
        if self.status and self.status != _GONE and not self._ended:
            self.status = _GONE
        route = self._scope.get("colibri_route", "other")
        self._service.metrics.requests.labels(route, str(self.status)).inc()
        # A page's files come by the dozen and say nothing of the model.
        if route != "health" and not (route == "page" and self.status < 400):
            line = self._record.line(self._scope["method"], _shown(self._scope), self.status)
            logger.info("%s", line)

    def _abort(self) -> None:
        """Without a last word: what is still to be written would wait for a client who does not
        read."""
        abort = self._scope.get("state", {}).get("abort")
        if abort is not None:
            abort()


def _refusal(error: Exception) -> ApiError:
    if not isinstance(error, HTTPException):
        return as_api_error(error)
    headers = dict(error.headers or {})
    if error.status_code == 404:
        return ApiError(404, "there is nothing at this path", headers=headers)
    if error.status_code == 405:
        allowed = headers.get("Allow", "")
        return ApiError(405, f"this path takes {allowed}", headers=headers)
    return ApiError(error.status_code, str(error.detail), headers=headers)


def _shown(scope: Scope) -> str:
    """The path, on one line and not longer than a glance."""
    return ascii(scope["path"])[1:-1][:200]


def _host_of(value: str) -> str:
    """Without the port."""
    value = value.strip().lower()
    if value.startswith("["):
        return value[1:].partition("]")[0]
    return value.rpartition(":")[0] if ":" in value else value


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _is_preflight(scope: Scope, headers: Headers) -> bool:
    return scope["method"] == "OPTIONS" and "access-control-request-method" in headers


def _preflight(headers: Headers) -> Response:
    """The page may ask; whether it has the key shows when it does."""
    allowed: dict[str, Any] = {
        "access-control-allow-methods": "GET, POST",
        "access-control-max-age": "600",
    }
    if asked := headers.get("access-control-request-headers"):
        allowed["access-control-allow-headers"] = asked
    return Response(status_code=204, headers=allowed)

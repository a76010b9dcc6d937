"""GET /health: whether the server lives and is ready; /metrics; and the order to stop."""

from __future__ import annotations

import hmac

from starlette.requests import Request
from starlette.responses import Response

from colibri.server.http.errors import ApiError
from colibri.server.http.reply import Json
from colibri.server.service import Service
from colibri.server.watch.snapshot import snapshot


async def live(_request: Request, service: Service) -> Response:
    """200 as long as the process answers at all."""
    return Json({"status": "live"})


async def ready(_request: Request, service: Service) -> Response:
    """503 while the model loads, and once the server ends."""
    if service.state == "ready":
        return Json({"status": "ready"})
    refusal = service.unready()
    return Json({"status": service.state}, 503, refusal.headers)


async def health(_request: Request, service: Service) -> Response:
    state = service.state
    busy = {} if service.any_llm is None else snapshot(service.any_llm)
    return Json({"status": state, "model": service.model_id, "active": service.active, **busy})


async def metrics(_request: Request, service: Service) -> Response:
    text = await service.work(service.metrics.text)
    return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")


async def stop(request: Request, service: Service) -> Response:
    """For `coli stop`, which knows the token that this very process wrote down when it started."""
    token = request.headers.get("x-colibri-stop", "")
    known = service.stop_token
    if known is None or not hmac.compare_digest(token.encode("latin-1"), known.encode()):
        raise ApiError(403, "only `coli stop`, by the same user on the same machine, ends a server")
    service.stop()
    return Json({"status": "stopping", "active": service.active})

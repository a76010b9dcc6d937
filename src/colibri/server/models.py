"""GET /v1/models and /v1/models/{id}: there is one."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from colibri.server.reply import Json
from colibri.server.service import Service
from colibri.server.structs.models import Model, Models


async def models(_request: Request, service: Service) -> Response:
    return Json(Models(object="list", data=[_model(service)]))


async def model(request: Request, service: Service) -> Response:
    model = _model(service)
    service.check_model(request.path_params["id"])
    return Json(model)


def _model(service: Service) -> Model:
    llm = service.llm
    return Model(
        id=service.model_id,
        object="model",
        created=service.started,
        owned_by="colibri",
        context_length=llm.plan.context,
        description=llm.load_line,
    )

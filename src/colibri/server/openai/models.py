"""GET /v1/models and /v1/models/{id}: there is one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response

from colibri.llm.files import is_embedded
from colibri.server.http.reply import Json
from colibri.server.openai.structs.models import Capabilities, Model, Models
from colibri.server.service import Service

if TYPE_CHECKING:
    from colibri.llm import LLM


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
        embedded=is_embedded(llm.container.path),
        capabilities=_capabilities(llm),
    )


def _capabilities(llm: LLM) -> Capabilities:
    text = llm.tokenizer is not None
    chat = llm.chat_format if text else None
    return Capabilities(
        text=text,
        chat=chat is not None,
        thinking=chat is not None and chat.can_stop_thinking,
        reasoning_efforts=[] if chat is None else list(chat.efforts),
        tools=chat is not None and chat.takes_tools,
    )

"""GET /openapi.json: what this server takes and gives, made from the structs themselves."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from colibri import __version__
from colibri.server.anthropic.structs import CountBody, MessageBody, TokenCount, WrittenMessage
from colibri.server.colibri.structs import ScoreAnswers, ScoreBody, ScoreChoice, ScoreSchema
from colibri.server.openai.structs.chat import ChatBody, ChatCompletion
from colibri.server.openai.structs.completions import CompletionBody, TextCompletion
from colibri.server.openai.structs.models import Model, Models
from colibri.server.service import Service

REF = "#/components/schemas/{name}"

# Path, what it does, form of the body, forms of the answer, whether it may be a stream.
POSTS: tuple[tuple[str, str, type, tuple[type, ...], bool], ...] = (
    ("/v1/chat/completions", "Answer a conversation.", ChatBody, (ChatCompletion,), True),
    ("/v1/completions", "Write on from prompts.", CompletionBody, (TextCompletion,), True),
    (
        "/v1/messages",
        "Answer a conversation, Anthropic's way.",
        MessageBody,
        (WrittenMessage,),
        True,
    ),
    (
        "/v1/messages/count_tokens",
        "Count a conversation's tokens.",
        CountBody,
        (TokenCount,),
        False,
    ),
    (
        "/v1/score",
        "Say how likely each of several answers is.",
        ScoreBody,
        (ScoreChoice, ScoreAnswers, ScoreSchema),
        False,
    ),
    (
        "/v1/brio",
        "Another name of /v1/score.",
        ScoreBody,
        (ScoreChoice, ScoreAnswers, ScoreSchema),
        False,
    ),
)
GETS: tuple[tuple[str, str, type | None], ...] = (
    ("/v1/models", "The model, as a list.", Models),
    ("/health", "What the server does.", None),
    ("/health/live", "Whether the process answers.", None),
    ("/health/ready", "Whether it would take a request.", None),
    ("/v1/colibri/plan", "Where the memory goes.", None),
    ("/v1/colibri/model", "The model, this machine, and the plan against what happened.", None),
    ("/v1/colibri/atlas", "Which topics each expert is for.", None),
    ("/v1/colibri/experts", "Which experts are in memory.", None),
    ("/v1/colibri/profile", "Where the time goes.", None),
)
_REFUSALS = {
    "400": "The request cannot be honoured.",
    "401": "The API key is missing or wrong.",
    "403": "The server was called by a name or from a page that is not allowed.",
    "404": "There is no such model.",
    "408": "The body did not arrive in time.",
    "413": "The body is too large.",
    "415": "The body is no JSON.",
    "429": "Too many requests wait; Retry-After says when to come again.",
    "503": "The model loads, the server stops, or too many connections are open.",
    "504": "The answer took too long.",
}


async def description(_request: Request, service: Service) -> Response:
    return Response(document(), media_type="application/json")


@cache
def document() -> bytes:
    kinds = [form for _, _, body, answers, _ in POSTS for form in (body, *answers)]
    kinds += [form for _, _, form in GETS if form is not None] + [Model]
    schemas, components = msgspec.json.schema_components(kinds, ref_template=REF)
    named = dict(zip(kinds, schemas, strict=True))
    paths: dict[str, Any] = {}
    for path, text, body, answers, streams in POSTS:
        paths[path] = {"post": _post(text, named[body], [named[a] for a in answers], streams)}
    for path, text, form in GETS:
        paths[path] = {"get": _get(text, {"type": "object"} if form is None else named[form])}
    paths["/v1/models/{id}"] = {"get": _get("The model.", named[Model], _ID)}
    paths["/v1/colibri/profile"]["get"]["parameters"] = _query("turn")
    paths["/v1/colibri/experts"]["get"]["parameters"] = _query("heat")
    return msgspec.json.encode(
        {
            "openapi": "3.1.0",
            "info": {"title": "colibri", "version": __version__},
            "paths": paths,
            "components": {
                "schemas": components | {"Refusal": _REFUSAL},
                "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
            },
            "security": [{}, {"key": []}],
        }
    )


_ID = [{"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}]
_EVENT = {  # one of those that a stream is made of
    "type": "object",
    "required": ["data"],
    "properties": {"data": {"type": "string"}, "event": {"type": "string"}},
}
_REFUSAL = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type"],
            "properties": {
                "message": {"type": "string"},
                "type": {"type": "string"},
                "param": {"type": ["string", "null"]},
                "code": {"type": ["string", "null"]},
            },
        }
    },
}


def _post(text: str, body: Any, answers: Sequence[Any], streams: bool) -> dict[str, Any]:
    content: dict[str, Any] = {"application/json": {"schema": {"anyOf": list(answers)}}}
    if streams:
        content["text/event-stream"] = {"schema": _EVENT}
    return {
        "summary": text,
        "requestBody": {"required": True, "content": {"application/json": {"schema": body}}},
        "responses": {"200": {"description": "The answer.", "content": content}} | _refusals(),
    }


def _get(text: str, answer: Any, parameters: Sequence[Any] = ()) -> dict[str, Any]:
    content = {"application/json": {"schema": answer}}
    return {
        "summary": text,
        "parameters": list(parameters),
        "responses": {"200": {"description": text, "content": content}} | _refusals(),
    }


def _query(name: str) -> list[dict[str, Any]]:
    return [{"name": name, "in": "query", "required": False, "schema": {"type": "integer"}}]


def _refusals() -> dict[str, Any]:
    schema = {"$ref": REF.format(name="Refusal")}
    content = {"application/json": {"schema": schema}}
    return {status: {"description": text, "content": content} for status, text in _REFUSALS.items()}

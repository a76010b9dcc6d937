"""What is not supported is refused by its name: every field that the clients know and we do not,
and any other, at every depth. And null is the same as nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, get_type_hints

import httpx2
import msgspec
import pytest
from anthropic.types.message_create_params import MessageCreateParamsBase
from openai.types.chat.completion_create_params import (
    CompletionCreateParamsBase as ChatParams,
)
from openai.types.completion_create_params import CompletionCreateParamsBase as TextParams
from server_kit import Scripted, said, serving

from colibri import LLM
from colibri.server.anthropic.structs import MessageBody
from colibri.server.http.body import decode
from colibri.server.http.errors import ApiError
from colibri.server.openai.structs.chat import ChatBody
from colibri.server.openai.structs.completions import CompletionBody
from colibri.server.openapi import POSTS
from colibri.server.structs.base import Input

HELLO: Any = [{"role": "user", "content": "Hello"}]
LEAST: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": HELLO},
    "/v1/completions": {"prompt": "Hello"},
    "/v1/messages": {"messages": HELLO, "max_tokens": 2},
}
# A body that has every object that there is, so that each can have a field too many.
FULL: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {
        "messages": [
            {"role": "system", "content": [{"type": "text", "text": "x"}]},
            {"role": "developer", "content": "x"},
            {"role": "user", "content": [{"type": "text", "text": "x"}], "name": "n"},
            {
                "role": "assistant",
                "tool_calls": [
                    {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
                ],
            },
            {"role": "tool", "content": "x", "tool_call_id": "1"},
        ],
        "stream": True,
        "stream_options": {"include_usage": True},
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}],
        "tool_choice": {"type": "function", "function": {"name": "f"}},
        "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {}}},
    },
    "/v1/completions": {"prompt": "x", "response_format": {"type": "regex", "pattern": "x"}},
    "/v1/messages": {
        "system": [{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "x"}]},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "x"},
                    {"type": "tool_use", "id": "1", "name": "f", "input": {}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "1",
                        "content": [{"type": "text", "text": "x"}],
                    }
                ],
            },
        ],
        "max_tokens": 2,
        "metadata": {"user_id": "x"},
        "thinking": {"type": "enabled", "budget_tokens": 1},
        "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": {}}},
        "tools": [{"name": "f", "input_schema": {}}],
        "tool_choice": {"type": "tool", "name": "f"},
    },
    "/v1/messages/count_tokens": {"messages": HELLO, "thinking": {"type": "adaptive"}},
    "/v1/score": {
        "messages": HELLO,
        "questions": [{"question": "x", "options": ["a", "b"]}],
    },
}
ANYTHING = ("input", "schema", "parameters", "input_schema")  # objects whose keys are the client's


def places(value: Any, at: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every object of a form that we give."""
    if isinstance(value, dict):
        yield at, value
        for key, inner in value.items():
            if key not in ANYTHING:
                yield from places(inner, f"{at}.{key}".lstrip("."))
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            yield from places(inner, f"{at}[{i}]")


FORMS = {path: form for path, _, form, _, _ in POSTS}


@pytest.mark.parametrize("path", FULL)
def test_any_object_refuses_what_it_does_not_know(path: str) -> None:
    body = FULL[path]
    decode(json.dumps(body).encode(), FORMS[path])
    for at, _ in places(body):
        changed = msgspec.json.decode(json.dumps(body))
        dict(places(changed))[at]["frobnicate"] = 1
        with pytest.raises(ApiError) as refusal:
            decode(json.dumps(changed).encode(), FORMS[path])
        want = f"{at}.frobnicate".lstrip(".")
        assert (refusal.value.status, refusal.value.param) == (400, want)
        assert want in refusal.value.message


OF_THE_CLIENTS = [
    (path, name)
    for path, params, form in (
        ("/v1/chat/completions", ChatParams, ChatBody),
        ("/v1/completions", TextParams, CompletionBody),
        ("/v1/messages", MessageCreateParamsBase, MessageBody),
    )
    for name in params.__annotations__
    if getattr(get_type_hints(form).get(name, type(None)), "__args__", ()) == ()
    and get_type_hints(form).get(name, type(None)) is type(None)
]
UNKNOWN = [
    *OF_THE_CLIENTS,
    ("/v1/messages", "betas"),
    ("/v1/messages", "mcp_servers"),
    ("/v1/completions", "use_beam_search"),
    ("/v1/chat/completions", "guided_json"),
]


@pytest.fixture(scope="module")
def refused(llm: LLM) -> Iterator[httpx2.Client]:
    scripted = Scripted(llm, lambda _request: pytest.fail("reached the engine"))
    with serving(scripted) as server, httpx2.Client(base_url=server.url, timeout=30) as client:
        yield client


def test_the_clients_know_fields_that_we_do_not() -> None:
    names = {name for _, name in UNKNOWN}
    assert {"audio", "functions", "prediction", "suffix", "container", "moderation"} <= names
    assert not names & {"messages", "seed", "temperature", "tools", "system", "echo"}


def _forms(form: type) -> Iterator[type]:
    for one in form.__subclasses__():
        yield one
        yield from _forms(one)


@pytest.mark.parametrize(
    "form", sorted(set(_forms(Input)), key=str), ids=lambda form: form.__name__
)
def test_null_is_the_same_as_nothing_at_every_depth(form: type) -> None:
    for field in msgspec.structs.fields(form):
        if not field.required:
            assert msgspec.convert(None, field.type) is field.default is None, field.name


@pytest.mark.parametrize(("path", "name"), OF_THE_CLIENTS)
def test_null_is_taken_of_what_the_clients_know(path: str, name: str) -> None:
    decode(json.dumps(LEAST[path] | {name: None}).encode(), FORMS[path])


@pytest.mark.parametrize(("path", "name"), UNKNOWN)
@pytest.mark.parametrize("value", [True, 1, "x", {}, {"type": "x"}, []], ids=str)
def test_fields_of_the_clients_that_are_not_supported(
    refused: httpx2.Client, path: str, name: str, value: Any
) -> None:
    response = refused.post(path, json=LEAST[path] | {name: value})
    assert response.status_code == 400
    error = response.json()["error"]
    assert error["message"] == f"{name}: not supported here"
    if path != "/v1/messages":
        assert (error["param"], error["code"]) == (name, "unsupported_parameter")


NULLS = [
    (path, name)
    for path, form in (
        ("/v1/chat/completions", ChatBody),
        ("/v1/completions", CompletionBody),
        ("/v1/messages", MessageBody),
    )
    for name, field in ((f.encode_name, f) for f in msgspec.structs.fields(form))
    if not field.required
]


@pytest.mark.parametrize("path", LEAST)
def test_null_is_the_same_as_nothing(path: str) -> None:
    """Some clients send every field that they know."""
    form = {p: form for p, _, form, _, _ in POSTS}[path]
    nulls = {name: None for p, name in NULLS if p == path}
    assert len(nulls) > 10
    body = decode(json.dumps(nulls | LEAST[path]).encode(), form)
    assert body == decode(json.dumps(LEAST[path]).encode(), form)


def test_a_template_takes_no_variables_but_its_own(refused: httpx2.Client) -> None:
    for name in ("tools", "messages", "self", "frobnicate", "range", "1 x", ""):
        body = LEAST["/v1/chat/completions"] | {"chat_template_kwargs": {name: 1}}
        response = refused.post("/v1/chat/completions", json=body)
        assert response.status_code == 400, (name, response.text)
        assert repr(name) in response.json()["error"]["message"]


def test_the_switch_of_reasoning_has_several_names(thinker: LLM) -> None:
    scripted = Scripted(thinker, said(thinker, "</think>Hi."))
    with serving(scripted) as server, httpx2.Client(base_url=server.url, timeout=30) as http:
        for given in (
            {},
            {"enable_thinking": False},
            {"chat_template_kwargs": {"enable_thinking": False}},
            {"chat_template_kwargs": {"thinking": False}},
            {"reasoning_effort": "none"},
            {"enable_thinking": False, "reasoning_effort": "none"},
            {"chat_template_kwargs": {"thinking": False, "enable_thinking": False}},
        ):
            body = LEAST["/v1/chat/completions"] | given
            assert http.post("/v1/chat/completions", json=body).status_code == 200
    first, *others = [tuple(request.prompt_ids) for request in scripted.submitted]
    assert set(others) == {others[0]} != {first}


def test_a_strict_tool_whose_schema_cannot_be_honoured_is_refused(thinker: LLM) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "array", "uniqueItems": True}}}
    said_not = Scripted(thinker, said(thinker, "</think>Hi."))
    bodies = {
        "/v1/chat/completions": lambda strict: {
            "tools": [
                {
                    "type": "function",
                    "function": {"name": "f", "parameters": schema, "strict": strict},
                }
            ]
        },
        "/v1/messages": lambda strict: {
            "tools": [{"name": "f", "input_schema": schema, "strict": strict}]
        },
    }
    with serving(said_not) as server, httpx2.Client(base_url=server.url, timeout=30) as http:
        for path, tools in bodies.items():
            assert http.post(path, json=LEAST[path] | tools(False)).status_code == 200
            response = http.post(path, json=LEAST[path] | tools(True))
            assert response.status_code == 400
            assert "uniqueItems" in response.json()["error"]["message"]
    assert thinker.tokenizer is not None
    for request in said_not.submitted:
        prompt = thinker.tokenizer.decode(request.prompt_ids, skip_special_tokens=False)
        assert "uniqueItems" in prompt
        assert "strict" not in prompt

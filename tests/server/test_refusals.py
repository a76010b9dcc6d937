"""What only the model can tell - its template, vocabulary and context - is refused by the field's
name as well; what it does otherwise than asked stands in the notice."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from server_kit import serving

from colibri import LLM
from colibri.errors import ConfigError
from colibri.server.http.errors import ApiError
from colibri.server.sampling import blaming

CHAT, TEXT, SCORE = "/v1/chat/completions", "/v1/completions", "/v1/score"
HELLO = [{"role": "user", "content": "Hello"}]
LONG = "x " * 4000
TOOL = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
NAMED = {"type": "function", "function": {"name": "time"}}


def _called(arguments: str) -> list[dict[str, Any]]:
    call = {"type": "function", "function": {"name": "weather", "arguments": arguments}}
    return [*HELLO, {"role": "assistant", "tool_calls": [call]}, *HELLO]


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        (TEXT, {"prompt": [99999]}, "prompt"),
        (TEXT, {"prompt": LONG}, "prompt"),
        (TEXT, {"prompt": ["x", LONG, "y"], "n": 2}, "prompt[1]"),
        (TEXT, {"prompt": [[1], [2, 99999]]}, "prompt[1]"),
        (TEXT, {"prompt": "x", "logit_bias": {"1": 0, "99999": 1}}, "logit_bias.99999"),
        (CHAT, {"messages": HELLO, "logit_bias": {"99999": 1}}, "logit_bias.99999"),
        (CHAT, {"messages": [{"role": "user", "content": LONG}]}, "messages"),
        (CHAT, {"messages": HELLO, "tools": [TOOL]}, "tools"),
        (CHAT, {"messages": HELLO, "tools": [TOOL], "tool_choice": NAMED}, "tool_choice"),
        (CHAT, {"messages": HELLO, "chat_template_kwargs": {"a": 1}}, "chat_template_kwargs.a"),
        (SCORE, {"state": LONG, "options": ["a", "b"]}, "state"),
        (SCORE, {"state": "", "options": ["a", "b"]}, "state"),
        (
            SCORE,
            {"messages": [{"role": "user", "content": LONG}], "options": ["a", "b"]},
            "messages",
        ),
    ],
    ids=lambda value: str(value)[:60],
)
def test_the_field_is_named(
    http: httpx2.Client, path: str, body: dict[str, Any], param: str
) -> None:
    response = http.post(path, json=body)
    assert response.status_code == 400
    assert response.json()["error"]["param"] == param


@pytest.mark.parametrize(
    ("path", "fields", "param", "says"),
    [
        (SCORE, {"schema": {"ok": ["a", "b"], "a": ["b"]}}, "schema.a", "length >= 2"),
        (SCORE, {"schema": {"ok": ["a", "b"], "a b": ["b", {}]}}, "schema.a b[1]", "object"),
        (SCORE, {"schema": {"a": ["b", "c"], "": ["b", "c"]}}, "schema.''", "as a key"),
        (SCORE, {"schema": {"a": ["b", "c", "b"]}}, "schema.a[2]", "same as schema.a[0]"),
        (SCORE, {"options": ["b", "c", "c"]}, "options[2]", "same as options[1]"),
        (SCORE, {"options": ["b", 1]}, "options[1]", "`int`"),
        (
            SCORE,
            {"questions": [{"question": "", "options": ["a", "b", "a"]}]},
            "questions[0].options[2]",
            "same as questions[0].options[0]",
        ),
        (CHAT, {"logit_bias": {"1": 1, "2": 101, "3": 1}}, "logit_bias.2", "<= 100"),
        (CHAT, {"logit_bias": {"1": 1, "x": 1}}, "logit_bias.x", "as a key: expected `int`"),
        (CHAT, {"logit_bias": {"-1": 1}}, "logit_bias.-1", "as a key"),
        (CHAT, {"metadata": {"a": "b", "c": 1, "d": "e"}}, "metadata.c", "`int`"),
        (TEXT, {"metadata": {"x" * 500: 1}}, "metadata." + "x" * 80, "`int`"),
        (CHAT, {"stop": ["a", ""]}, "stop[1]", "length >= 1"),
        (
            CHAT,
            {"response_format": {"type": "choice", "options": ["a", ""]}},
            "response_format.options[1]",
            "length >= 1",
        ),
    ],
    ids=lambda value: str(value)[:60],
)
def test_the_entry_of_a_map_or_list_is_named(
    http: httpx2.Client, path: str, fields: dict[str, Any], param: str, says: str
) -> None:
    needed = {SCORE: {"state": "x"}, CHAT: {"messages": HELLO}, TEXT: {"prompt": "x"}}[path]
    for body in (needed | fields, fields | needed, fields):
        error = http.post(path, json=body).json()["error"]
        if "same as" in says and body is fields:
            continue  # first of all there is no context
        assert error["param"] == param
        assert error["message"].startswith(f"{param}: ")
        assert says in error["message"]


def test_a_map_that_is_there_twice_or_very_large_is_named_as_such(http: httpx2.Client) -> None:
    many = b",".join(b'"%d": 1' % i for i in range(100_000))
    for raw in (
        b'{"metadata": {"a": 1, "a": "b"}}',
        b'{"metadata": {"a": 1}, "metadata": [1]}',
        b'{"logit_bias": {%s, "a": 1}}' % many,
    ):
        headers = {"content-type": "application/json"}
        error = http.post(CHAT, content=raw, headers=headers).json()["error"]
        assert error["param"] in ("metadata", "logit_bias"), error


def test_what_the_library_names_is_named_as_the_client_put_it() -> None:
    for field, param in (
        ("options[1]", "schema.a[1]"),
        ("x.options", "x.options"),
        (None, "state"),
    ):
        with pytest.raises(ApiError) as caught, blaming("state", theirs={"options": "schema.a"}):
            raise ConfigError("no", field)
        assert caught.value.param == param


@pytest.fixture(scope="module")
def thinking(thinker: LLM) -> Iterator[httpx2.Client]:
    with serving(thinker) as server, httpx2.Client(base_url=server.url, timeout=30) as client:
        yield client


def test_a_tool_that_is_none_of_them_is_told_in_no_api_of_others(thinking: httpx2.Client) -> None:
    tools = [{"name": "weather", "input_schema": {"type": "object"}}]
    body = {"messages": HELLO, "max_tokens": 4, "tools": tools}
    refusal = thinking.post(
        "/v1/messages", json=body | {"tool_choice": {"type": "tool", "name": "x"}}
    )
    assert refusal.status_code == 400
    message = refusal.json()["error"]["message"]
    assert message == "tool_choice names 'x', which is none of the tools; they are weather"


def _notices(client: httpx2.Client, path: str, **body: Any) -> list[str | None]:
    """Of two clients who ask the same, and streamed."""
    found = []
    for stream in (False, False, True):
        asked = {"messages": HELLO, "max_tokens": 2, "stream": stream} | body
        response = client.post(path, json=asked)
        assert response.status_code == 200, response.text
        found.append(response.headers.get("x-colibri-notice"))
    return found


def test_an_agent_goes_on_after_a_call_that_was_cut_off(thinking: httpx2.Client) -> None:
    broken = _notices(thinking, CHAT, messages=_called('{"city": "Os'), tools=[TOOL])
    where = "messages[1].tool_calls[0].function.arguments"
    assert all(notice is not None and notice.startswith(where) for notice in broken)
    assert _notices(thinking, CHAT, messages=_called("{}"), tools=[TOOL]) == [None] * 3


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        (
            {"chat_template_kwargs": {"thinking": True, "enable_thinking": False}},
            "chat_template_kwargs.thinking",
        ),
        (
            {"enable_thinking": True, "chat_template_kwargs": {"thinking": False}},
            "chat_template_kwargs.thinking",
        ),
        ({"enable_thinking": True, "reasoning_effort": "none"}, "reasoning_effort"),
        (
            {"reasoning_effort": "low", "chat_template_kwargs": {"reasoning_effort": "Max"}},
            "chat_template_kwargs.reasoning_effort",
        ),
        ({"chat_template_kwargs": {"thinking": "on"}}, "chat_template_kwargs.thinking"),
        ({"chat_template_kwargs": {"enable_thinking": 1}}, "chat_template_kwargs.enable_thinking"),
    ],
    ids=str,
)
def test_of_two_fields_that_say_otherwise_none_is_ignored(
    thinking: httpx2.Client, fields: dict[str, Any], param: str
) -> None:
    response = thinking.post(CHAT, json={"messages": HELLO, "max_tokens": 1} | fields)
    assert response.status_code == 400
    assert response.json()["error"]["param"] == param


def test_what_the_model_cannot_do_as_asked_is_told_to_each_client(
    thinking: httpx2.Client, http: httpx2.Client
) -> None:
    """The log says it once; a client sees no log."""
    minimal = "reasoning effort minimal: the nearest that this model has is Low"
    assert _notices(thinking, CHAT, reasoning_effort="minimal") == [minimal] * 3
    assert _notices(thinking, CHAT, reasoning_effort="low") == [None] * 3
    schema = {"type": "object", "properties": {"a": {"not": {}}}}
    tool = {"type": "function", "function": {"name": "f\u00e9", "parameters": schema}}
    for notice in _notices(thinking, CHAT, tools=[tool], max_tokens=5000):
        assert notice is not None
        assert "tool f\\xe9: json_schema: 'not'" in notice
        assert "max_tokens 5000 is more" in notice
    on = "thinking on: this model's template knows no reasoning"
    enabled = {"type": "enabled", "budget_tokens": 1024}
    assert _notices(http, "/v1/messages", thinking=enabled) == [on] * 3

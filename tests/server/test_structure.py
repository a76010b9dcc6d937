"""Enforced structure over HTTP: what is asked for is what comes, streamed or not, or a 400."""

from __future__ import annotations

import json
import re
import threading
import time
from typing import Any

import httpx2
import openai
import pytest
from server_kit import events, serving

from colibri import LLM
from colibri.grammar.compiler import compile_grammar

QUESTION: Any = [{"role": "user", "content": "Describe a fox."}]
PLAIN: Any = {"messages": QUESTION, "max_tokens": 3}
SCHEMA = {
    "type": "object",
    "properties": {"name": {"enum": ["fox", "狐狸"]}, "legs": {"type": "integer"}},
    "required": ["name", "legs"],
    "additionalProperties": False,
}
TOOLS: Any = [
    {
        "type": "function",
        "function": {
            "name": name,
            "parameters": {
                "type": "object",
                "properties": {"city": {"enum": ["Oslo", "Rome"]}},
                "required": ["city"],
            },
        },
    }
    for name in ("weather", "sunset")
]


def is_object(text: str) -> bool:
    return isinstance(json.loads(text), dict)


@pytest.mark.parametrize(
    ("asked", "fits"),
    [
        ({"type": "text"}, lambda text: True),
        (
            {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA}},
            lambda text: set(json.loads(text)) == {"name", "legs"},
        ),
        (
            {"type": "regex", "pattern": "[0-9]{3}-[a-z]{2}"},
            re.compile("[0-9]{3}-[a-z]{2}").fullmatch,
        ),
        ({"type": "choice", "options": ["red fox", "blue"]}, ["red fox", "blue"].__contains__),
        ({"type": "grammar", "grammar": 'start: "a" | "bc"'}, ["a", "bc"].__contains__),
        (
            {"type": "grammar", "syntax": "gbnf", "grammar": 'root ::= "x" [0-9]'},
            re.compile("x[0-9]").fullmatch,
        ),
    ],
    ids=lambda value: value["type"] if isinstance(value, dict) else "",
)
def test_formats(http: httpx2.Client, asked: Any, fits: Any) -> None:
    """B077."""
    for seed in (1, 2):
        body = {"messages": QUESTION, "response_format": asked, "seed": seed, "max_tokens": 60}
        whole = http.post("/v1/chat/completions", json=body).json()["choices"][0]
        found = events(http.post("/v1/chat/completions", json=body | {"stream": True}))
        chunks = [data["choices"][0] for name, data in found[:-1] if name != ":"]
        text = "".join(chunk["delta"].get("content", "") for chunk in chunks)
        assert text == whole["message"]["content"]
        assert chunks[-1]["finish_reason"] == whole["finish_reason"]
        if whole["finish_reason"] == "stop":
            assert fits(text), text


def test_what_max_tokens_cuts_says_so(http: httpx2.Client) -> None:
    """B077: never an unclosed object with "stop"."""
    body = {"messages": QUESTION, "response_format": {"type": "json_object"}, "max_tokens": 2}
    choice = http.post("/v1/chat/completions", json=body).json()["choices"][0]
    assert choice["finish_reason"] == "length" or is_object(choice["message"]["content"])


def test_anthropics_output_format(http: httpx2.Client) -> None:
    asked = {"type": "json_schema", "schema": SCHEMA}
    body = {"messages": QUESTION, "output_config": {"format": asked}, "max_tokens": 60}
    message = http.post("/v1/messages", json=body).json()
    if message["stop_reason"] == "end_turn":
        assert set(json.loads(message["content"][0]["text"])) == {"name", "legs"}


@pytest.mark.parametrize(
    ("format", "says"),
    [
        ({"type": "json_schema", "json_schema": {"schema": {"type": "nonsense"}}}, "nonsense"),
        (
            {"type": "json_schema", "json_schema": {"schema": {"type": "string", "contains": {}}}},
            "contains",
        ),
        (
            {"type": "json_schema", "json_schema": {"schema": {"$ref": "http://evil/x.json"}}},
            r"\$ref",
        ),
        ({"type": "json_schema", "json_schema": {"schema": {"$ref": "#"}}}, r"\$ref"),
        ({"type": "json_schema", "json_schema": {"schema": {"enum": ["x" * 300_000]}}}, "bytes"),
        ({"type": "regex", "pattern": "("}, "regex"),
        ({"type": "regex", "pattern": "((a{1,900}){1,900}){1,900}"}, "regex"),
        ({"type": "grammar", "grammar": "nonsense ::: ("}, "lark"),
        ({"type": "grammar", "syntax": "gbnf", "grammar": "root ::= ("}, "gbnf"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_what_cannot_be_honoured_is_a_400_in_bounded_time(
    http: httpx2.Client, format: Any, says: str
) -> None:
    """B076: and nobody else is kept waiting."""
    begun = time.monotonic()
    body = {"messages": QUESTION, "response_format": format}
    response = http.post("/v1/chat/completions", json=body)
    assert response.status_code == 400, response.text
    error = response.json()["error"]
    assert re.search(says, error["message"]), error
    assert error["param"] == "response_format"
    assert time.monotonic() - begun < 20
    assert http.get("/health/ready").status_code == 200


def test_grammars_that_take_long_hold_nobody_else_up(
    http: httpx2.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B076: they are compiled beside the loop and the engine, and beside other requests' texts."""
    compiling, go_on = threading.Semaphore(0), threading.Event()

    def slow(structure: Any, vocabulary: Any) -> Any:
        compiling.release()
        assert go_on.wait(30)
        return compile_grammar(structure, vocabulary)

    monkeypatch.setattr("colibri.grammar.compiler.compile_grammar", slow)
    url = str(http.base_url)
    answers: list[Any] = []

    def ask(path: str, body: Any) -> None:
        answers.append(httpx2.post(f"{url}{path}", json=body, timeout=60).status_code)

    schemas = [{"enum": [f"slow {i}"]} for i in range(3)]  # more than there are workers
    formats = [{"type": "json_schema", "json_schema": {"schema": schema}} for schema in schemas]
    threads = [
        threading.Thread(target=ask, args=("/v1/completions", {"prompt": "A", **form}))
        for form in ({"response_format": form} for form in formats)
    ]
    stream = {"prompt": "A fox", "max_tokens": 30, "ignore_eos": True, "stream": True}
    try:
        for thread in threads:
            thread.start()
        assert all(compiling.acquire(timeout=20) for _ in range(2))
        assert http.get("/metrics").status_code == 200
        assert http.post("/v1/messages", json=PLAIN).status_code == 200
        assert http.post("/v1/chat/completions", json=PLAIN).status_code == 200
        found = events(http.post("/v1/completions", json=stream))
        assert found[-1][1] == "[DONE]"
        assert not answers
    finally:
        go_on.set()
        for thread in threads:
            thread.join()
    assert answers == [200] * 3


@pytest.mark.parametrize(
    ("choice", "names"),
    [
        ("required", {"weather", "sunset"}),
        ({"type": "function", "function": {"name": "sunset"}}, {"sunset"}),
    ],
    ids=["required", "named"],
)
def test_calls_that_are_demanded_come(thinker: LLM, choice: Any, names: set[str]) -> None:
    """B078, B079: of the tools there are, with arguments of their schema; streamed or not."""
    with (
        serving(thinker) as server,
        openai.OpenAI(base_url=f"{server.url}/v1", api_key="none") as client,
    ):
        asked: Any = {
            "model": "demo",
            "messages": QUESTION,
            "tools": TOOLS,
            "tool_choice": choice,
            "parallel_tool_calls": False,
            "reasoning_effort": "none",
            "seed": 1,
            "max_tokens": 200,
        }
        answer = client.chat.completions.create(**asked).choices[0]
        chunks = list(client.chat.completions.create(stream=True, **asked))
    assert answer.finish_reason == "tool_calls"
    (call,) = answer.message.tool_calls or ()
    assert call.function.name in names  # type: ignore[union-attr]
    assert json.loads(call.function.arguments)["city"] in ("Oslo", "Rome")  # type: ignore[union-attr]
    deltas = [call for c in chunks for call in c.choices[0].delta.tool_calls or ()]
    assert [delta.function.arguments for delta in deltas] == [call.function.arguments]  # type: ignore[union-attr]


def test_no_tools_are_offered_where_none_shall_be_called(thinker: LLM) -> None:
    from server_kit import Scripted, said

    scripted = Scripted(thinker, said(thinker, "</think>Nothing."))
    with serving(scripted) as server, httpx2.Client(base_url=server.url) as http:
        body = {"messages": QUESTION, "tools": TOOLS, "tool_choice": "none", "max_tokens": 20}
        answer = http.post("/v1/chat/completions", json=body).json()["choices"][0]
        assert answer["message"]["content"] == "Nothing."
        assert thinker.tokenizer is not None
        prompt = thinker.tokenizer.decode(scripted.submitted[0].prompt_ids, False)
        assert "weather" not in prompt


@pytest.mark.parametrize("choice", [{"type": "function", "function": {"name": "rain"}}])
def test_a_tool_that_is_not_there(thinker: LLM, choice: Any) -> None:
    with serving(thinker) as server, httpx2.Client(base_url=server.url) as http:
        body = {"messages": QUESTION, "tools": TOOLS, "tool_choice": choice}
        response = http.post("/v1/chat/completions", json=body)
        assert response.status_code == 400
        assert "rain" in response.json()["error"]["message"]


@pytest.mark.parametrize("pattern", ["(((a{0,99}){0,99}){0,99}){0,99}", "^([a-z]{1,300}-){1,300}$"])
@pytest.mark.parametrize("forced", [False, True])
def test_rules_too_complex_to_compile_are_told_of_their_tool(
    thinker: LLM, pattern: str, forced: bool
) -> None:
    """Left free with a notice where a call may be; refused where one must be."""
    schema = {"type": "object", "properties": {"code": {"type": "string", "pattern": pattern}}}
    tool = {"type": "function", "function": {"name": "enter", "parameters": schema}}
    body = PLAIN | {"tools": [tool], "tool_choice": "required" if forced else "auto"}
    with serving(thinker) as running, httpx2.Client(base_url=running.url, timeout=30) as client:
        answer = client.post("/v1/chat/completions", json=body)
    assert answer.status_code == (400 if forced else 200), answer.text
    said = answer.json()["error"]["message"] if forced else answer.headers["x-colibri-notice"]
    assert "tool enter: " in said
    assert "repetitions within repetitions" in said

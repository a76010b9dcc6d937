"""What the log has of requests: never their texts, and one line each, whatever they say."""

from __future__ import annotations

import json
import logging
import re
import secrets
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from msgspec.structs import fields as struct_fields
from server_kit import events, serving
from test_never_ignored import FULL, LEAST

from colibri import LLM
from colibri.server.colibri.structs import ScoreBody
from colibri.server.http.errors import as_api_error
from colibri.server.openai.structs.chat import ChatBody
from colibri.server.openai.structs.completions import CompletionBody

CANARY = "xyzzy"


def poisoned(value: Any) -> Iterator[Any]:
    """The body with one of its texts, keys or values replaced."""
    for text in (CANARY, f"{CANARY}\nreq_0 POST /v1/messages 200 1 ms\r\x1b[31m\u2028"):
        yield from _poisoned(value, text)


def _poisoned(value: Any, text: str) -> Iterator[Any]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield {text if k == key else k: v for k, v in value.items()}
            for changed in _poisoned(inner, text):
                yield value | {key: changed}
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            for changed in _poisoned(inner, text):
                yield [*value[:i], changed, *value[i + 1 :]]
    elif isinstance(value, str):
        yield text


BODIES = {
    **{path: body | {"max_tokens": 2} for path, body in FULL.items() if "score" not in path},
    "/v1/score": {"state": "x", "schema": {"a": ["x", "y"]}, "task": "x", "normalize": "mean"},
}
BODIES["/v1/messages/count_tokens"] = FULL["/v1/messages/count_tokens"]


@pytest.mark.parametrize("path", BODIES)
def test_no_text_of_a_request_is_logged(
    thinker: LLM, caplog: pytest.LogCaptureFixture, path: str
) -> None:
    caplog.set_level(logging.INFO, logger="colibri")
    count = 0
    with serving(thinker) as server, httpx2.Client(base_url=server.url, timeout=60) as http:
        for body in poisoned(BODIES[path]):
            response = http.post(path, json=body)
            assert response.status_code < 500, body
            count += 1
    assert count > 4
    lines = [r.getMessage() for r in caplog.records if r.name.startswith("colibri")]
    assert len([line for line in lines if f"POST {path} " in line]) == count
    for line in lines:
        assert CANARY not in re.sub(r"unsupported_parameter \(.*\)$", "", line)  # a field's name
        assert line.isprintable(), line


def test_a_tools_name_is_on_one_line(thinker: LLM, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="colibri")
    schema = {"type": "object", "properties": {"a\nb": {"type": "array", "uniqueItems": True}}}
    function: dict[str, Any] = {"name": "a\nreq_0 POST / 200\x1b[31m", "parameters": schema}
    body = {
        "messages": [{"role": "user", "content": "x"}],
        "tools": [{"type": "function", "function": function}],
        "max_tokens": 1,
    }
    with serving(thinker) as server:
        answer = httpx2.post(f"{server.url}/v1/chat/completions", json=body, timeout=60)
        assert answer.status_code < 500
        function["name"] = "weather"
        answer = httpx2.post(f"{server.url}/v1/chat/completions", json=body, timeout=60)
        assert answer.status_code == 200
    lines = [r.getMessage() for r in caplog.records if r.name.startswith("colibri")]
    assert len(lines) >= 2
    assert all(line.isprintable() for line in lines)


def test_refusals_are_logged_by_code_and_field(llm: LLM, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="colibri")
    body = {"messages": [{"role": CANARY, "content": "x"}]}
    for wanted, says in (("off", "invalid_value (messages[0].role)"), ("on", CANARY)):
        caplog.clear()
        with serving(llm, log_prompts=wanted) as server:
            httpx2.post(f"{server.url}/v1/chat/completions", json=body)
        (line,) = [r.getMessage() for r in caplog.records if "POST" in r.getMessage()]
        assert line.endswith(says) or wanted == "on"
        assert says in line


def test_keys_of_a_map_are_texts_too(thinker: LLM, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="colibri")
    chat, score = LEAST["/v1/chat/completions"], {"state": "x"}
    bodies = {
        "metadata": ("/v1/chat/completions", chat | {"metadata": {CANARY: 1}}),
        "logit_bias": ("/v1/chat/completions", chat | {"logit_bias": {CANARY: 1}}),
        "chat_template_kwargs": (
            "/v1/chat/completions",
            chat | {"chat_template_kwargs": {CANARY: 1}},
        ),
        "schema": ("/v1/score", score | {"schema": {f"{CANARY}.a": ["x", "x"]}}),
    }
    fields = [f for form in (ChatBody, CompletionBody, ScoreBody) for f in struct_fields(form)]
    maps = {f.encode_name for f in fields if "dict[" in str(f.type).partition("|")[0]}
    assert maps == set(bodies)
    with serving(thinker) as server, httpx2.Client(base_url=server.url, timeout=60) as http:
        for field, (path, body) in bodies.items():
            error = http.post(path, json=body).json()["error"]
            assert error["param"].startswith(f"{field}.{CANARY}")
    lines = [r.getMessage() for r in caplog.records if "POST" in r.getMessage()]
    for field, line in zip(bodies, lines, strict=True):
        assert line.endswith(f"({field})")
        assert CANARY not in line


def test_paths_and_hosts_are_on_one_line(llm: LLM, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="colibri")
    with serving(llm) as server, server.connect() as sock:
        sock.sendall(
            b"GET /a%0Areq_0%20GET%20/%20200%e2%80%a8 HTTP/1.1\r\nHost: a\x1b[31mb\r\n"
            b"Connection: close\r\n\r\n"
        )
        while sock.recv(4096):
            pass
        httpx2.get(f"{server.url}/v1/models/{json.dumps('a')}%0A%1b[31m")
    lines = [r.getMessage() for r in caplog.records if r.name.startswith("colibri")]
    assert lines
    assert all(line.isprintable() for line in lines)


def test_a_closed_question_has_its_tokens_in_the_log_and_the_counters(
    llm: LLM, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="colibri")
    questions = [{"question": q, "options": ["yes", "no"]} for q in ("Red?", "Blue?")]
    with serving(llm) as server, httpx2.Client(base_url=server.url, timeout=60) as http:
        usage = http.post("/v1/score", json={"state": "x", "questions": questions}).json()["usage"]
        counted = http.get("/metrics").text
    (line,) = [r.getMessage() for r in caplog.records if "POST /v1/score " in r.getMessage()]
    assert re.search(rf", prompt {usage['prompt_tokens']} tokens \(\d+ cached\)$", line), line
    assert f"colibri_prompt_tokens_total {usage['prompt_tokens']:.1f}\n" in counted


@pytest.mark.parametrize("stream", [False, True])
def test_a_prompt_counts_once_however_many_answers_it_has(
    llm: LLM, caplog: pytest.LogCaptureFixture, stream: bool
) -> None:
    """In the log and the counters as in the usage."""
    caplog.set_level(logging.INFO, logger="colibri")
    prompt, cached, answered, says = 0, 0, 0, []
    with serving(llm) as server, httpx2.Client(base_url=server.url, timeout=60) as http:
        for path, body in (
            ("/v1/chat/completions", LEAST["/v1/chat/completions"]),
            ("/v1/completions", {"prompt": ["Hello there", "Once"]}),
        ):
            asked = body | {"n": 3, "max_tokens": 3, "stream": stream}
            options = {"stream_options": {"include_usage": True}} if stream else {}
            response = http.post(path, json=asked | options)
            usage = events(response)[-2][1]["usage"] if stream else response.json()["usage"]
            hit = usage["prompt_tokens_details"]["cached_tokens"]
            read, written = usage["prompt_tokens"], usage["completion_tokens"]
            says.append(f", prompt {read} tokens ({hit} cached), answer {written} (")
            prompt, cached, answered = prompt + read, cached + hit, answered + written
        counted = http.get("/metrics").text
    lines = [r.getMessage() for r in caplog.records if "POST" in r.getMessage()]
    assert all(said in line for said, line in zip(says, lines, strict=True))
    for name, value in (
        ("prompt_tokens", prompt),
        ("cached_prompt_tokens", cached),
        ("generation_tokens", answered),
    ):
        assert f"colibri_{name}_total {value:.1f}\n" in counted


def test_a_fault_of_ours_is_in_the_log_without_what_was_asked(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The client is told to look there."""
    asked = secrets.token_hex()

    def find(text: str) -> int:
        try:
            return {"a": 1}[text]
        except KeyError as error:
            raise ValueError(text) from error

    with pytest.raises(ValueError, match=asked) as fault:
        find(asked)
    assert "the server's log says more" in as_api_error(fault.value).message
    (said,) = [record.getMessage() for record in caplog.records]
    assert said.startswith("internal error\nValueError\n")
    assert "raise ValueError(text) from error\nKeyError\n" in said
    assert 'return {"a": 1}[text]' in said
    assert asked not in said

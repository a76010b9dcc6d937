"""B075: bodies of the wrong form are refused with the field's name, and never reach the engine."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest
from server_kit import Scripted, serving

from colibri import LLM

HELLO = [{"role": "user", "content": "Hello"}]
WRONG: tuple[Any, ...] = (
    5,
    -1,
    1.5,
    "x",
    "",
    True,
    None,
    [],
    [1],
    {},
    {"a": 1},
    [[]],
    "\x00",
    1e300,
)

CHAT: list[dict[str, Any]] = [
    *({"messages": wrong} for wrong in WRONG),
    *({"messages": HELLO, "temperature": wrong} for wrong in ("1", [], {}, True, 3, -0.1)),
    *({"messages": HELLO, "max_tokens": wrong} for wrong in ("5", 0, -1, 1.5, [], True)),
    *({"messages": HELLO, "top_p": wrong} for wrong in ("1", 2, -1, {})),
    *({"messages": HELLO, "seed": wrong} for wrong in ("1", 1.5, 10**30, [])),
    *({"messages": HELLO, "stop": wrong} for wrong in (5, {}, [5], "", [""], ["a"] * 17)),
    *({"messages": HELLO, "n": wrong} for wrong in (0, -1, 17, "1", 1.5)),
    *({"messages": HELLO, "logit_bias": wrong} for wrong in ([], {"a": 1}, {"1": 101}, {"1": "x"})),
    *({"messages": HELLO, "tools": wrong} for wrong in ({}, [{}], ["x"], [{"type": "function"}])),
    *({"messages": HELLO, "tool_choice": wrong} for wrong in ("any", 1, {"type": "x"})),
    *(
        {"messages": HELLO, "response_format": wrong}
        for wrong in (
            "json",
            [],
            {},
            {"type": "xml"},
            {"type": "json_schema"},
            {"type": "json_schema", "json_schema": "{}"},
            {"type": "json_schema", "json_schema": {"name": "x"}},
        )
    ),
    *({"messages": HELLO, "stream": wrong} for wrong in ("true", 1, [])),
    *({"messages": HELLO, "logprobs": wrong} for wrong in (3, "true")),
    *({"messages": HELLO, "logprobs": True, "top_logprobs": wrong} for wrong in (21, -1, "2")),
    {"messages": HELLO, "reasoning_effort": "huge"},
    {"messages": HELLO, "stream_options": {"include_usage": 1}, "stream": True},
    {"messages": [{"role": "robot", "content": "x"}]},
    {"messages": [{"role": "user"}]},
    {"messages": [{"content": "x"}]},
    {"messages": [{"role": "user", "content": None}]},
    {"messages": [{"role": "user", "content": 5}]},
    {"messages": [{"role": "user", "content": [5]}]},
    {"messages": [{"role": "user", "content": [{"type": "text"}]}]},
    {"messages": [{"role": "assistant"}]},
    {"messages": [{"role": "assistant", "tool_calls": [{"function": {"name": "x"}}]}]},
    {"messages": [{"role": "tool", "content": "x"}]},
    {"messages": HELLO, "model": 5},
    {"messages": HELLO, "no_such_field": 1},
    {},
]
OTHERS: list[tuple[str, dict[str, Any]]] = [
    *(("/v1/completions", {"prompt": wrong}) for wrong in WRONG if wrong not in ("x", [1], "\x00")),
    ("/v1/completions", {"prompt": ["a", 1]}),
    ("/v1/completions", {"prompt": ["a"] * 129}),
    ("/v1/completions", {"prompt": ["a", ""]}),
    ("/v1/completions", {"prompt": [10**9]}),
    ("/v1/completions", {"prompt": "a", "suffix": "b"}),
    ("/v1/completions", {"prompt": "a", "best_of": 3}),
    ("/v1/completions", {"prompt": "a", "max_tokens": 0}),
    ("/v1/completions", {"prompt": "a", "logprobs": True}),
    ("/v1/messages", {"messages": HELLO}),
    ("/v1/messages", {"messages": HELLO, "max_tokens": "5"}),
    ("/v1/messages", {"messages": [{"role": "system", "content": "x"}], "max_tokens": 5}),
    ("/v1/messages", {"messages": HELLO, "max_tokens": 5, "system": 5}),
    ("/v1/messages", {"messages": HELLO, "max_tokens": 5, "thinking": {"type": "enabled"}}),
    ("/v1/messages", {"messages": HELLO, "max_tokens": 5, "tools": [{"name": "x"}]}),
    ("/v1/messages/count_tokens", {"messages": []}),
    ("/v1/score", {"state": "x"}),
    ("/v1/score", {"state": "x", "options": ["a"]}),
    ("/v1/score", {"state": "x", "options": ["a", "a"]}),
    ("/v1/score", {"state": "x", "options": ["a", "b"], "schema": {"a": [1, 2]}}),
    ("/v1/score", {"options": ["a", "b"]}),
    ("/v1/score", {"state": "x", "messages": HELLO, "options": ["a", "b"]}),
    ("/v1/score", {"state": "x", "options": ["a", "b"], "normalize": "max"}),
    ("/v1/score", {"state": "x", "schema": {"a": [[1], [2]]}}),
]


@pytest.fixture(scope="module")
def refused(llm: LLM) -> Any:
    """A client of a server whose engine must not be called."""
    scripted = Scripted(llm, lambda _request: pytest.fail("reached the engine"))
    with serving(scripted) as server, httpx2.Client(base_url=server.url, timeout=30) as client:
        yield client
    assert scripted.submitted == []


@pytest.mark.parametrize(
    ("path", "body"), [*(("/v1/chat/completions", body) for body in CHAT), *OTHERS], ids=str
)
def test_wrong_forms(refused: httpx2.Client, path: str, body: dict[str, Any]) -> None:
    response = refused.post(path, json=body)
    assert response.status_code in (400, 404), response.text
    error = response.json()["error"]
    assert error["type"] in ("invalid_request_error", "not_found_error")
    assert error["message"]
    if path.startswith("/v1/messages"):
        assert response.json()["type"] == "error"
    elif len(body) > 1:
        assert error["param"], error


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" ",
        b"{",
        b"[]",
        b"null",
        b'"x"',
        b"{]",
        b'{"messages":[}',
        b'{"messages": NaN}',
        b"\xff\xfe",
        b'{"prompt": "\xed\xa0\x80"}',
        b'{"prompt": "\\ud800"}',
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"prompt": ' + b"9" * 10_000 + b"}",
    ],
    ids=lambda body: str(body[:12]),
)
def test_what_is_no_json_object(refused: httpx2.Client, body: bytes) -> None:
    """B075, B095: also half characters, and nesting without end."""
    kind = {"content-type": "application/json"}
    for path in ("/v1/completions", "/v1/chat/completions", "/v1/messages", "/v1/score"):
        response = refused.post(path, content=body, headers=kind)
        assert response.status_code == 400, response.text
        assert json.loads(response.content)["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize("number", ["1e400", "-1e400", "1E+99999999999", "[[-1e999]]"])
@pytest.mark.parametrize(
    ("path", "param", "field"),
    [
        ("/v1/score", "schema", '"schema":{"a":[%s,2]}'),
        ("/v1/chat/completions", "logit_bias", '"logit_bias":{"5":%s}'),
        ("/v1/chat/completions", "chat_template_kwargs", '"chat_template_kwargs":{"a":{"b":%s}}'),
        ("/v1/chat/completions", "tools[0]", '"tools":[{"type":"function","function":{"name":"f",'
         '"parameters":{"properties":{"a":{"maximum":%s}}}}}]'),
        ("/v1/messages", "messages[0]", '"max_tokens":1,"messages":[{"role":"assistant","content":'
         '[{"type":"tool_use","id":"a","name":"f","input":{"a":%s}}]}]'),
    ],
)  # fmt: skip
def test_a_number_beyond_every_float(
    refused: httpx2.Client, path: str, param: str, field: str, number: str
) -> None:
    body = '{"model":"m","state":"x",' if path == "/v1/score" else '{"model":"m",'
    kind = {"content-type": "application/json"}
    response = refused.post(path, content=body + field % number + "}", headers=kind)
    assert response.status_code == 400, response.text
    found = response.json()["error"]
    assert found["type"] == "invalid_request_error"
    assert found.get("param", param).startswith(param)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"content-type": "text/plain"}, 415),
        ({"content-type": "application/x-www-form-urlencoded"}, 415),
        ({"content-type": "application/json", "content-encoding": "gzip"}, 415),
    ],
    ids=str,
)
def test_what_is_sent_otherwise(
    refused: httpx2.Client, headers: dict[str, str], status: int
) -> None:
    response = refused.post("/v1/completions", content=b"{}", headers=headers)
    assert response.status_code == status


@pytest.mark.parametrize(
    "url",
    ["/etc/passwd", "file:///etc/passwd", "http://169.254.169.254/", "data:image/png;base64,AA"],
)
def test_no_url_is_fetched_and_no_file_read(refused: httpx2.Client, url: str) -> None:
    """B087."""
    part = {"type": "image_url", "image_url": {"url": url}}
    body = {"messages": [{"role": "user", "content": [part]}]}
    response = refused.post("/v1/chat/completions", json=body)
    assert response.status_code == 400
    assert response.json()["error"]["param"] == "messages[0].content[0].type"


@pytest.mark.parametrize(
    "path",
    [
        "/../etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/..%2fetc%2fpasswd",
        "//etc/passwd",
        "/v1/models/../../etc/passwd",
        "/v1/models/%2e%2e%2fsecret",
        "/static/../pyproject.toml",
        "/nothing",
        "/v1",
        "/v1/chat/completions/",
    ],
)
def test_paths_lead_nowhere_else(refused: httpx2.Client, path: str) -> None:
    """B086."""
    response = refused.get(httpx2.URL(str(refused.base_url).rstrip("/") + path))
    assert response.status_code == 404
    assert response.json()["error"]["type"] == "not_found_error"


def test_methods_that_a_path_does_not_take(refused: httpx2.Client) -> None:
    response = refused.get("/v1/chat/completions")
    assert (response.status_code, response.headers["allow"]) == (405, "POST")
    assert refused.request("PATCH", "/v1/models").status_code == 405
    assert refused.head("/v1/models").status_code == 200

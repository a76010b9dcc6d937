"""A value that a field cannot have is answered with those that it can."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

USER = {"role": "user", "content": "x"}


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        (
            "/v1/chat/completions",
            {"messages": [USER, {"role": "usr", "content": "x"}]},
            "messages[1].role: 'usr' is not supported here; "
            "use assistant, developer, system, tool or user",
        ),
        (
            "/v1/chat/completions",
            {"messages": [{"role": "user", "content": [{"type": "txt", "text": "x"}]}]},
            "messages[0].content[0].type: 'txt' is not supported here; use text",
        ),
        (
            "/v1/chat/completions",
            {"messages": [USER], "tool_choice": "all"},
            "tool_choice: 'all' is not supported here; use auto, none or required",
        ),
        (
            "/v1/score",
            {"state": "x", "options": ["a", "b"], "normalize": "max"},
            "normalize: 'max' is not supported here; use mean or sum",
        ),
        (
            "/v1/messages",
            {"max_tokens": 4, "messages": [USER], "tool_choice": {"type": "all"}},
            "tool_choice.type: 'all' is not supported here; use any, auto, none or tool",
        ),
    ],
)
def test_what_may_stand_there_is_named(
    http: httpx2.Client, path: str, body: dict[str, Any], said: str
) -> None:
    answer = http.post(path, json=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["message"] == said


def test_where_any_text_may_stand_nothing_is_named(http: httpx2.Client) -> None:
    answer = http.post("/v1/chat/completions", json={"messages": [USER], "seed": "x"})
    assert answer.status_code == 400
    assert "; use " not in answer.json()["error"]["message"]

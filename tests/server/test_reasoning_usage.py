"""usage.completion_tokens_details.reasoning_tokens: what of an answer's tokens was reasoning."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from server_kit import Scripted, events, said, serving

from colibri import LLM

HELLO = [{"role": "user", "content": "Hello"}]
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}


def _usages(llm: Any, **fields: Any) -> dict[str, Any]:
    """The same whole and streamed."""
    with serving(llm) as server, httpx2.Client(base_url=server.url, timeout=30) as http:
        asked = {"messages": HELLO, "max_tokens": 60} | fields
        whole = http.post("/v1/chat/completions", json=asked).json()["usage"]
        asked |= {"stream": True, "stream_options": {"include_usage": True}}
        streamed = events(http.post("/v1/chat/completions", json=asked))[-2][1]["usage"]
    for usage in (whole, streamed):
        usage.pop("prompt_tokens_details")
    assert whole == streamed
    return dict(whole)


@pytest.mark.parametrize(
    ("reasoning", "answer"),
    [
        ("A greeting.\n\nSo I greet.</think>", "\n\nHello!"),
        ("\u2026 \u4f60\u597d \U0001f600</think>", "\U0001f600"),
        ("</think>", "Hi."),
        ("It never ends", ""),
        ("Only that.</think>", ""),
        ("To call </thin or <tool_call>?</think>", "So: <tool_call>f</tool_call>"),
    ],
)
def test_tokens_of_the_reasoning_are_counted(thinker: LLM, reasoning: str, answer: str) -> None:
    assert thinker.tokenizer is not None
    first, both = (
        len(thinker.tokenizer.encode(text, add_special_tokens=False))
        for text in (reasoning, reasoning + answer)
    )
    scripted = Scripted(thinker, said(thinker, reasoning + answer))
    for n in (1, 3):
        usage = _usages(scripted, n=n, tools=[TOOL])
        assert usage["completion_tokens"] == n * both
        assert usage["completion_tokens_details"] == {"reasoning_tokens": n * first}


def test_none_where_there_is_none(thinker: LLM, llm: LLM) -> None:
    none = {"reasoning_tokens": 0}
    scripted = Scripted(thinker, said(thinker, "Hello <think>there</think>!"))
    assert _usages(scripted, enable_thinking=False)["completion_tokens_details"] == none
    assert _usages(llm, n=2)["completion_tokens_details"] == none
    with serving(llm) as server:
        body = {"prompt": "Hello", "max_tokens": 2}
        answer = httpx2.post(f"{server.url}/v1/completions", json=body, timeout=30).json()
    assert answer["usage"]["completion_tokens_details"] == none


def test_of_a_real_answer_that_is_cut_off_all_is_reasoning(thinker: LLM) -> None:
    usage = _usages(thinker, max_tokens=5, temperature=0, ignore_eos=True)
    assert usage["completion_tokens"] == 5
    assert usage["completion_tokens_details"] == {"reasoning_tokens": 5}

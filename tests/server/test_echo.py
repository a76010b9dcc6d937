"""B083: `echo` with `logprobs` is what evaluations compute likelihoods from."""

from __future__ import annotations

from typing import Any

import httpx2
import numpy as np
import pytest
from server_kit import events

from colibri import LLM

PROMPT = "The hummingbird is a small bird that"


def ask(http: httpx2.Client, **body: Any) -> dict[str, Any]:
    response = http.post("/v1/completions", json={"temperature": 0} | body)
    assert response.status_code == 200, response.text
    choice: dict[str, Any] = response.json()["choices"][0]
    return choice


def teacher_forced(llm: LLM, ids: list[int]) -> list[float]:
    logits = llm.forward(ids).astype(np.float64)
    rows = logits[np.arange(len(ids) - 1), ids[1:]]
    peak = logits.max(axis=1)
    total = peak + np.log(np.exp(logits - peak[:, None]).sum(axis=1))
    return list(rows - total[:-1])


@pytest.mark.parametrize("max_tokens", [0, 1, 4])
def test_log_probabilities_of_the_prompt_are_teacher_forced(
    http: httpx2.Client, llm: LLM, max_tokens: int
) -> None:
    assert llm.tokenizer is not None
    ids = llm.tokenizer.encode(PROMPT, True)
    choice = ask(http, prompt=PROMPT, echo=True, logprobs=2, max_tokens=max_tokens)
    told = choice["logprobs"]
    assert told["token_logprobs"][0] is None
    assert told["top_logprobs"][0] is None
    assert len(told["tokens"]) == len(ids) + max_tokens
    assert choice["text"].startswith(PROMPT)
    assert "".join(told["tokens"]) == choice["text"]
    assert told["token_logprobs"][1 : len(ids)] == pytest.approx(teacher_forced(llm, ids), abs=1e-5)
    for offset, token in zip(told["text_offset"], told["tokens"], strict=True):
        assert choice["text"][offset : offset + len(token)] == token
    assert all(len(top) in (2, 3) for top in told["top_logprobs"][1:])


def test_streamed_it_is_the_same(http: httpx2.Client) -> None:
    body = {"prompt": PROMPT, "echo": True, "logprobs": 1, "max_tokens": 3}
    whole = ask(http, **body)
    response = http.post("/v1/completions", json=body | {"temperature": 0, "stream": True})
    choices = [d["choices"][0] for name, d in events(response)[:-1] if name != ":"]
    assert "".join(choice["text"] for choice in choices) == whole["text"]
    for name, values in whole["logprobs"].items():
        assert [x for c in choices if c["logprobs"] for x in c["logprobs"][name]] == values


def test_echo_alone(http: httpx2.Client, llm: LLM) -> None:
    assert ask(http, prompt=PROMPT, echo=True, max_tokens=0)["text"] == PROMPT
    assert llm.tokenizer is not None
    ids = llm.tokenizer.encode(PROMPT, True)
    choice = ask(http, prompt=ids, echo=True, max_tokens=2)
    assert choice["text"].startswith(PROMPT)
    assert choice["logprobs"] is None


def test_log_probabilities_of_the_answer(http: httpx2.Client) -> None:
    choice = ask(http, prompt=PROMPT, logprobs=0, max_tokens=3)
    told = choice["logprobs"]
    assert "".join(told["tokens"]) == choice["text"]
    assert [len(top) for top in told["top_logprobs"]] == [1, 1, 1]


@pytest.mark.parametrize("prompt", ["F\N{CRAB}!G", "e\u0301 \u65e5\u672c."])
def test_offsets_count_characters_however_many_tokens_make_one(
    http: httpx2.Client, llm: LLM, prompt: str
) -> None:
    assert llm.tokenizer is not None
    ids = llm.tokenizer.encode(prompt, True)
    told = ask(http, prompt=prompt, echo=True, logprobs=0, max_tokens=0)["logprobs"]
    begins = [len(llm.tokenizer.decode(ids[:n]).rstrip("\ufffd")) for n in range(len(ids))]
    assert told["text_offset"] == begins
    assert begins[-1] == len(prompt) - 1

"""Over HTTP, in whatever company: each answer, to the last bit of its log-probabilities, is the one
that the same request gets from a server that has nothing else to do and keeps nothing."""

from __future__ import annotations

import contextlib
import json
import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest
from server_kit import Running, events, raw_request, serving
from test_disconnects import reset
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

import golden
from colibri import LLM

# Attention over keys and values, latent attention, the delta rule, latent attention with an index.
QUICK = ("olmoe", "glm_moe_dsa", "qwen3_5_moe", "glm5_next")
TEMPLATE = (
    "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}"
)
BEGINNINGS = (
    "The quick brown fox jumps over the lazy dog",
    "The quick brown fox jumps over the lazy cat and sleeps",
    "0123456789",
)
FORMATS: tuple[Any, ...] = (
    {"type": "regex", "pattern": "[a-z]{3,6}-[0-9]+;"},
    {"type": "choice", "options": ["yes", "no", "perhaps"]},
    {
        "type": "json_schema",
        "json_schema": {
            "schema": {
                "type": "object",
                "properties": {"a": {"enum": [1, 22, 333]}, "b": {"type": "boolean"}},
                "required": ["a", "b"],
                "additionalProperties": False,
            }
        },
    },
)


def with_text(family: str, folder: Path) -> Path:
    """A tiny checkpoint with a letter a token, and a template."""
    folder.mkdir()
    for path in golden.tiny(family).iterdir():
        (folder / path.name).symlink_to(path)
    letters = [chr(code) for code in range(33, 127)] + ["Ġ", "Ċ"]  # byte-level's blank, newline
    tokens = ["<unk>", "<s>", "</s>", *letters]
    library = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, []))
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.ByteLevel()
    library.add_special_tokens(["<unk>", "<s>", "</s>"])
    library.save(str(folder / "tokenizer.json"))
    (folder / "chat_template.jinja").write_text(TEMPLATE, "utf-8")
    return folder


def request(rng: random.Random) -> tuple[str, dict[str, Any]]:
    """Beginnings are few, ends are many."""
    text = rng.choice(BEGINNINGS)[: rng.randrange(3, 60)] + rng.choice(["", "!", " so", " 7"])
    how: dict[str, Any] = {"seed": rng.randrange(5), "max_tokens": rng.randrange(1, 14)}
    how["temperature"] = rng.choice([0, 0.7, 1.4])
    if rng.random() < 0.4:
        how |= {"top_p": 0.8, "presence_penalty": 0.5, "logit_bias": {"5": 3, "70": -100}}
    if rng.random() < 0.3:
        how |= {"stop": ["q", "zz"], "frequency_penalty": 1}
    if rng.random() < 0.3:
        how["n"] = 2
    if rng.random() < 0.4:
        how["response_format"] = rng.choice(FORMATS)
    how["stream"] = rng.random() < 0.5
    kind = rng.randrange(5)
    if kind == 0:
        return "/v1/score", {"state": text, "options": [" yes", " no", " not now"]}
    if kind == 1:
        return "/v1/completions", {"prompt": text, "echo": True, "logprobs": 2} | how
    if kind == 2:
        ids = [rng.randrange(3, 99) for _ in range(rng.randrange(1, 40))]
        return "/v1/completions", {"prompt": [ids, ids[:9]], "logprobs": 0} | how
    turns = [{"role": "user", "content": text}]
    if kind == 4:
        turns += [{"role": "assistant", "content": "Hm."}, {"role": "user", "content": "Go on"}]
    asked = {"messages": turns, "logprobs": True, "top_logprobs": rng.randrange(4)}
    return "/v1/chat/completions", asked | how


def shown(path: str, response: httpx2.Response) -> Any:
    """All but what differs from one to the next: ids, times, what was cached."""
    assert response.status_code == 200, response.text
    if path == "/v1/score":
        return response.json()["choices"]
    if not response.headers["content-type"].startswith("text/event-stream"):
        return [_of(choice) for choice in response.json()["choices"]]
    found: dict[int, dict[str, Any]] = {}
    *chunks, (_, last) = [event for event in events(response) if event[0] != ":"]
    assert last == "[DONE]"
    for _, chunk in chunks:
        for choice in chunk["choices"]:
            _join(found.setdefault(choice["index"], {}), _of(choice))
    return [found[index] for index in sorted(found)]


def _of(choice: Any) -> dict[str, Any]:
    said = choice.get("message") or choice.get("delta") or choice
    logprobs = choice.get("logprobs") or {}
    return {
        "text": said.get("content") or said.get("text") or "",
        "reason": choice["finish_reason"] or "",
        "logprobs": {name: list(values) for name, values in logprobs.items()},
    }


def _join(whole: dict[str, Any], part: dict[str, Any]) -> None:
    for name in ("text", "reason"):
        whole[name] = whole.get(name, "") + part[name]
    logprobs = whole.setdefault("logprobs", {})
    for name, values in part["logprobs"].items():
        logprobs[name] = logprobs.get(name, []) + values


def leave(server: Running, rng: random.Random) -> None:
    """An answer that is asked for, begun perhaps, and given up."""
    body = {"prompt": rng.choice(BEGINNINGS), "max_tokens": 150, "ignore_eos": True}
    body |= {"stream": rng.random() < 0.7}
    with contextlib.suppress(ConnectionError):
        sock = server.connect()
        sock.sendall(raw_request("/v1/completions", json.dumps(body).encode()))
        time.sleep(rng.random() * 0.05)
        reset(sock)


def answers(url: str, asked: list[tuple[str, dict[str, Any]]], together: int) -> list[Any]:
    with httpx2.Client(base_url=url, timeout=120) as http, ThreadPoolExecutor(together) as clients:

        def ask(one: tuple[str, dict[str, Any]]) -> Any:
            return shown(one[0], http.post(one[0], json=one[1]))

        return list(clients.map(ask, asked))


def check(family: str, folder: Path, count: int) -> None:
    rng = random.Random(family)
    asked = [request(rng) for _ in range(count)]
    path = with_text(family, folder)
    with LLM(path, prefix_cache=0) as llm, serving(llm) as server:
        alone = answers(server.url, asked, 1)
    settings: dict[str, Any] = {"prefix_cache": 4000, "cache_experts": 3, "prefill_chunk": 7}
    with LLM(path, **settings) as llm, serving(llm) as server:
        going: Iterator[Any]
        with ThreadPoolExecutor(2) as leavers:
            going = leavers.map(lambda at: leave(server, random.Random(at)), range(count // 2))
            company = answers(server.url, asked, 6)
        assert len(list(going)) == count // 2
        server.await_idle()
        stats = llm.status().stats
        assert stats.mixed_steps > 0
        assert stats.cached_tokens > 0
        assert not llm._engine._states._lent
    for one, got, want in zip(asked, company, alone, strict=True):
        assert got == want, one


@pytest.mark.parametrize("family", QUICK)
def test_answers_in_company_are_those_alone(family: str, tmp_path: Path) -> None:
    check(family, tmp_path / "model", 16)


@pytest.mark.soak
@pytest.mark.parametrize("family", golden.FAMILIES)
def test_many_answers_in_company_are_those_alone(family: str, tmp_path: Path) -> None:
    check(family, tmp_path / "model", 400)

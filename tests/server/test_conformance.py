"""What each parameter does, asked for by the real clients; and errors as their own exceptions."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import anthropic
import openai
import pytest
from server_kit import Running, Scripted, said, serving
from test_openai_client import joined, whole

from colibri import LLM
from colibri.engine.request import Event, Failed, Request, Token
from colibri.errors import DeadlineError, QueueFullError, ReadError, StalledError

HELLO: Any = [{"role": "user", "content": "Tell me a story about a fox."}]
BASE: dict[str, Any] = {"model": "demo", "messages": HELLO, "max_tokens": 12}
CITY = {
    "type": "object",
    "properties": {"city": {"enum": ["Oslo", "Rome"]}},
    "required": ["city"],
}


def test_a_banned_token_is_not_written_and_a_favoured_one_is(
    openai_client: openai.OpenAI, llm: LLM
) -> None:
    assert llm.tokenizer is not None
    plain = openai_client.chat.completions.create(temperature=0, logprobs=True, **BASE)
    assert plain.choices[0].logprobs is not None
    first = plain.choices[0].logprobs.content[0].token  # type: ignore[index]
    (banned,) = llm.tokenizer.encode(first, False)
    other = openai_client.chat.completions.create(
        temperature=0, logit_bias={str(banned): -100}, **BASE
    )
    assert not (other.choices[0].message.content or "").startswith(first)
    always = openai_client.chat.completions.create(
        temperature=0, logit_bias={str(banned): 100}, **BASE
    )
    assert always.choices[0].message.content == first * 12


@pytest.mark.parametrize("name", ["presence_penalty", "frequency_penalty", "repetition_penalty"])
def test_penalties_change_what_the_library_says_they_change(
    openai_client: openai.OpenAI, llm: LLM, name: str
) -> None:
    how: dict[str, Any] = {"temperature": 0, "max_tokens": 40}
    plain, fined = (
        openai_client.chat.completions.create(**BASE | how, extra_body=more)
        for more in ({}, {name: 1.9})
    )
    own = llm.chat(HELLO, replace(llm.default_params, **how, **{name: 1.9}))
    assert fined.choices[0].message.content == own.text != plain.choices[0].message.content


@pytest.mark.parametrize("top", [0, 3])
def test_log_probabilities_do_not_depend_on_what_was_kept(
    openai_client: openai.OpenAI, top: int
) -> None:
    """Streamed and not, the first time and with a prefix that is known."""
    turns = [
        *HELLO,
        {"role": "assistant", "content": "No."},
        {"role": "user", "content": f"{top}?"},
    ]
    asked: Any = BASE | {"messages": turns, "temperature": 0, "logprobs": True, "top_logprobs": top}
    first = openai_client.chat.completions.create(**asked)
    again = openai_client.chat.completions.create(**asked)
    chunks = list(openai_client.chat.completions.create(stream=True, **asked))
    assert again.usage is not None
    assert again.usage.prompt_tokens_details is not None
    assert again.usage.prompt_tokens_details.cached_tokens >= again.usage.prompt_tokens - 1  # type: ignore[operator]
    assert whole(first) == whole(again) == joined(chunks)
    assert all(len(entry.top_logprobs) == top for entry in whole(first)["logprobs"])


def test_cached_tokens_of_each_api(
    openai_client: openai.OpenAI, anthropic_client: anthropic.Anthropic
) -> None:
    prompt = "Once upon a time in a forest far away there lived a hummingbird, and"
    asked: Any = {"model": "demo", "prompt": prompt, "max_tokens": 2}
    openai_client.completions.create(**asked)
    usage = openai_client.completions.create(**asked).usage
    assert usage is not None
    assert usage.prompt_tokens_details.cached_tokens == usage.prompt_tokens - 1  # type: ignore[union-attr]
    (*_, last) = openai_client.completions.create(
        stream=True, stream_options={"include_usage": True}, **asked
    )
    assert last.usage == usage
    messages: Any = [{"role": "user", "content": prompt}]
    anthropic_client.messages.create(model="demo", max_tokens=2, messages=messages)
    second = anthropic_client.messages.create(model="demo", max_tokens=2, messages=messages).usage
    assert second.cache_read_input_tokens
    assert second.cache_read_input_tokens > second.input_tokens


def test_too_many_tokens_are_clamped_by_each_api(
    openai_client: openai.OpenAI, anthropic_client: anthropic.Anthropic
) -> None:
    text = openai_client.completions.with_raw_response.create(
        model="demo", prompt="A cat", max_tokens=10**9, stop=[" "]
    )
    assert "1000000000" in text.headers["x-colibri-notice"]
    message = anthropic_client.messages.with_raw_response.create(
        model="demo", messages=HELLO, max_tokens=20_000, stop_sequences=[" "]
    )
    assert "20000" in message.headers["x-colibri-notice"]
    streamed = openai_client.chat.completions.with_raw_response.create(
        **(BASE | {"max_tokens": 20_000}), stop=" ", stream=True
    )
    assert "20000" in streamed.headers["x-colibri-notice"]
    list(streamed.parse())


@pytest.fixture(scope="module")
def tools(thinker: LLM) -> Iterator[Running]:
    with serving(thinker) as running:
        yield running


def test_several_calls_are_made_where_they_may_be(tools: Running) -> None:
    """A model of this size asks for nothing in its right mind: that calls come, in the tools' form,
    is the grammar's work. With `parallel_tool_calls` off, one."""
    functions = [
        {"type": "function", "function": {"name": name, "parameters": CITY}}
        for name in ("weather", "sunset")
    ]
    counts: dict[bool, set[int]] = {True: set(), False: set()}
    with openai.OpenAI(base_url=f"{tools.url}/v1", api_key="none") as client:
        for parallel, seeds in ((True, range(4)), (False, range(3))):
            for seed in seeds:
                asked: Any = BASE | {
                    "tools": functions,
                    "tool_choice": "required",
                    "parallel_tool_calls": parallel,
                    "reasoning_effort": "none",
                    "temperature": 1.5,
                    "seed": seed,
                    "max_tokens": 300,
                }
                answer = whole(client.chat.completions.create(**asked))
                streamed = joined(list(client.chat.completions.create(stream=True, **asked)))
                assert streamed == answer
                if answer["reason"] != "length":  # which some do not end before
                    assert answer["reason"] == "tool_calls"
                    assert answer["content"] == ""
                for name, arguments in answer["calls"]:
                    assert name in ("weather", "sunset")
                    assert json.loads(arguments)["city"] in ("Oslo", "Rome")
                counts[parallel].add(len(answer["calls"]))
    assert counts[False] == {1}
    assert max(counts[True]) > 1


@pytest.mark.parametrize(
    ("choice", "names"),
    [
        ({"type": "any"}, ["weather", "sunset"]),
        ({"type": "any", "disable_parallel_tool_use": True}, ["weather", "sunset"]),
        ({"type": "tool", "name": "sunset"}, ["sunset"]),
        ({"type": "none"}, []),
    ],
    ids=str,
)
def test_anthropics_choices_of_tools(tools: Running, choice: Any, names: list[str]) -> None:
    asked: Any = {
        **BASE,
        "tools": [{"name": name, "input_schema": CITY} for name in ("weather", "sunset")],
        "tool_choice": choice,
        "thinking": {"type": "disabled"},
        "max_tokens": 200,
        "extra_body": {"temperature": 0},
    }
    with anthropic.Anthropic(base_url=tools.url, api_key="none") as client:
        message = client.messages.create(**asked)
        body = {name: value for name, value in asked.items() if name != "extra_body"}
        with client.messages.stream(**body, extra_body=asked["extra_body"]) as stream:
            streamed = stream.get_final_message()
    calls = [block for block in message.content if block.type == "tool_use"]
    assert {call.name for call in calls} <= set(names)
    assert bool(calls) == bool(names)
    for call in calls:
        assert call.input["city"] in ("Oslo", "Rome")
    if choice.get("disable_parallel_tool_use") or choice["type"] == "tool":
        assert len(calls) == 1
        assert message.stop_reason == "tool_use"
    assert [b.model_dump(exclude={"id"}) for b in streamed.content] == [
        b.model_dump(exclude={"id"}) for b in message.content
    ]


ERRORS: tuple[tuple[Exception, int, type[Exception], type[Exception]], ...] = (
    (ReadError("expert 3"), 500, openai.InternalServerError, anthropic.InternalServerError),
    (DeadlineError("late"), 504, openai.InternalServerError, anthropic.APIStatusError),
    (StalledError("stuck"), 504, openai.InternalServerError, anthropic.APIStatusError),
    (ZeroDivisionError("x"), 500, openai.InternalServerError, anthropic.InternalServerError),
    (MemoryError(), 503, openai.InternalServerError, anthropic.APIStatusError),
)


def failing(error: Exception, after: int) -> Callable[[Request], Iterable[Event]]:
    return lambda _request: [*(Token(50, None, ()) for _ in range(after)), Failed(error)]


@pytest.mark.parametrize(("error", "status", "theirs", "others"), ERRORS, ids=str)
def test_failures_are_exceptions_of_the_clients(
    llm: LLM, error: Exception, status: int, theirs: type[Exception], others: type[Exception]
) -> None:
    """Whole, and in the middle of a stream, which then ends."""
    with (
        serving(Scripted(llm, failing(error, 2))) as server,
        openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as one,
        anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0) as two,
    ):
        with pytest.raises(theirs) as first:
            one.chat.completions.create(**BASE)
        assert first.value.status_code == status  # type: ignore[attr-defined]
        with pytest.raises(theirs):
            one.completions.create(model="demo", prompt="x")
        with pytest.raises(others) as second:
            two.messages.create(**BASE)
        assert second.value.status_code == status  # type: ignore[attr-defined]
        with pytest.raises(openai.APIError):
            list(one.chat.completions.create(stream=True, **BASE))
        with pytest.raises(openai.APIError):
            list(one.completions.create(model="demo", prompt="x", stream=True))
        with pytest.raises(anthropic.APIStatusError), two.messages.stream(**BASE) as stream:
            stream.get_final_message()


def test_a_full_queue_and_a_loading_model_are_exceptions_to_come_again_after(llm: LLM) -> None:
    class Full(Scripted):
        def submit(self, asked: Any) -> None:
            raise QueueFullError("8 requests wait", 3.2)

    with (
        serving(Full(llm, said(llm, ""))) as server,
        openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as one,
        anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0) as two,
    ):
        for stream in (False, True):
            with pytest.raises(openai.RateLimitError) as first:
                one.chat.completions.create(stream=stream, **BASE)
            assert first.value.response.headers["retry-after"] == "4"
            with pytest.raises(anthropic.RateLimitError) as second:
                two.messages.create(stream=stream, **BASE)
            assert second.value.response.headers["retry-after"] == "4"
        server.service.state = "loading"
        with pytest.raises(openai.InternalServerError) as third:
            one.chat.completions.create(**BASE)
        assert third.value.status_code == 503
        server.service.state = "ready"

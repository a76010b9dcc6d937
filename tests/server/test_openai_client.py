"""OpenAI's own client over every parameter, streamed and not, errors included."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import openai
import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from server_kit import Running, Scripted, said, serving

from colibri import LLM

QUESTION: list[Any] = [{"role": "user", "content": "What is the capital of Portugal?"}]
STORY: list[Any] = [{"role": "user", "content": "Tell me a story about a fox."}]
WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather of a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
            "required": ["city"],
        },
    },
}
CALLS = (
    "I look.<tool_call>weather<arg_key>city</arg_key><arg_value>Oslo</arg_value></tool_call>"
    "<tool_call>weather<arg_key>city</arg_key><arg_value>Rome</arg_value>"
    "<arg_key>days</arg_key><arg_value>2</arg_value></tool_call>"
)


def joined(chunks: list[ChatCompletionChunk], index: int = 0) -> dict[str, Any]:
    """What the pieces of one choice add up to, in the form of `whole`."""
    message: dict[str, Any] = {"content": "", "reasoning": "", "calls": [], "logprobs": []}
    for chunk in chunks:
        for choice in chunk.choices:
            if choice.index != index:
                continue
            message["content"] += choice.delta.content or ""
            message["reasoning"] += getattr(choice.delta, "reasoning_content", None) or ""
            for call in choice.delta.tool_calls or ():
                assert call.function is not None
                assert call.index == len(message["calls"])
                message["calls"].append((call.function.name, call.function.arguments))
            if choice.logprobs is not None:
                message["logprobs"] += choice.logprobs.content or ()
            if choice.finish_reason is not None:
                assert "reason" not in message
                message["reason"] = choice.finish_reason
    return message


def whole(completion: ChatCompletion, index: int = 0) -> dict[str, Any]:
    choice = completion.choices[index]
    calls = [(c.function.name, c.function.arguments) for c in choice.message.tool_calls or ()]  # type: ignore[union-attr]
    return {
        "content": choice.message.content or "",
        "reasoning": getattr(choice.message, "reasoning_content", None) or "",
        "calls": calls,
        "logprobs": (choice.logprobs.content if choice.logprobs else None) or [],
        "reason": choice.finish_reason,
    }


def both(client: openai.OpenAI, **asked: Any) -> dict[str, Any]:
    """The answer, which is the same streamed and not."""
    asked = {"model": "demo", "messages": STORY, "max_tokens": 24} | asked
    completion = client.chat.completions.create(**asked)
    chunks = list(client.chat.completions.create(stream=True, **asked))
    assert {chunk.id for chunk in chunks} != {completion.id}
    for index in range(len(completion.choices)):
        assert joined(chunks, index) == whole(completion, index)
    return whole(completion)


@pytest.mark.parametrize(
    "asked",
    [
        {"temperature": 0},
        {"temperature": 0.9, "seed": 7},
        {"temperature": 1.5, "seed": -3, "top_p": 0.6},
        {"seed": 1, "presence_penalty": 1.5, "frequency_penalty": 0.5},
        {"seed": 1, "logit_bias": {"50": -100, "51": 5}},
        {"seed": 1, "n": 3},
        {"seed": 1, "logprobs": True},
        {"seed": 1, "logprobs": True, "top_logprobs": 3},
        {"temperature": 0, "stop": " the"},
        {"temperature": 0, "stop": ["zzz", "fox"]},
        {"temperature": 0, "max_tokens": 1},
        {"temperature": 0, "max_completion_tokens": 24},
        {"seed": 1, "extra_body": {"top_k": 3, "min_p": 0.1, "repetition_penalty": 1.2}},
        {"seed": 1, "extra_body": {"ignore_eos": True}},
        {"temperature": 0, "user": "me", "metadata": {"a": "b"}, "store": False},
        {"temperature": 0, "reasoning_effort": "none"},
        {"temperature": 0, "reasoning_effort": "high"},  # of a model that does not think
    ],
    ids=str,
)
def test_parameters_give_the_same_streamed_and_not(
    openai_client: openai.OpenAI, asked: dict[str, Any]
) -> None:
    """B065, B069."""
    answer = both(openai_client, **asked)
    assert answer["content"] or asked.get("stop")


def test_answers_are_those_of_the_library(openai_client: openai.OpenAI, llm: LLM) -> None:
    params = replace(llm.default_params, temperature=0.8, seed=3, max_tokens=20)
    own = llm.chat(STORY, params)
    answer = both(openai_client, temperature=0.8, seed=3, max_tokens=20)
    assert answer["content"] == own.text
    assert answer["reason"] == own.finish_reason


def test_seeds_of_several_choices_follow_each_other(openai_client: openai.OpenAI) -> None:
    asked: dict[str, Any] = {"model": "demo", "messages": STORY, "max_tokens": 12}
    three = openai_client.chat.completions.create(seed=5, n=3, **asked)
    last = openai_client.chat.completions.create(seed=7, **asked)
    assert three.choices[2].message.content == last.choices[0].message.content
    assert len({choice.message.content for choice in three.choices}) > 1
    assert three.usage is not None
    assert three.usage.completion_tokens > last.usage.completion_tokens  # type: ignore[union-attr]
    assert three.usage.prompt_tokens == last.usage.prompt_tokens  # type: ignore[union-attr]


def test_usage(openai_client: openai.OpenAI) -> None:
    asked: dict[str, Any] = {"model": "demo", "messages": QUESTION, "temperature": 0}
    usage = openai_client.chat.completions.create(**asked).usage
    assert usage is not None
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    assert usage.prompt_tokens_details is not None
    assert usage.prompt_tokens_details.cached_tokens is not None
    chunks = list(
        openai_client.chat.completions.create(
            stream=True, stream_options={"include_usage": True}, **asked
        )
    )
    assert all(chunk.usage is None for chunk in chunks[:-1])
    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == usage.completion_tokens


def test_log_probabilities_that_nobody_asks_for(openai_client: openai.OpenAI) -> None:
    asked: dict[str, Any] = {"model": "demo", "messages": QUESTION, "max_tokens": 1}
    for unasked in ({"logprobs": False}, {}):
        answer = openai_client.chat.completions.create(top_logprobs=0, **unasked, **asked)
        assert answer.choices[0].logprobs is None
        with pytest.raises(openai.BadRequestError, match="only with logprobs"):
            openai_client.chat.completions.create(top_logprobs=1, **unasked, **asked)


def test_logprobs_are_of_the_unmodified_distribution(openai_client: openai.OpenAI) -> None:
    answer = both(openai_client, temperature=0, logprobs=True, top_logprobs=2, max_tokens=6)
    for entry in answer["logprobs"]:
        assert entry.logprob <= 0
        assert entry.top_logprobs[0].logprob == pytest.approx(entry.logprob)
        assert bytes(entry.bytes).decode() == entry.token
        assert sum(math.exp(top.logprob) for top in entry.top_logprobs) <= 1.0001
    assert "".join(entry.token for entry in answer["logprobs"]) == answer["content"]


def test_reasoning_and_tool_calls(thinker: LLM) -> None:
    """B061, B065, B079: streamed or not, the same reasoning, text, calls and reason."""
    scripted = Scripted(thinker, said(thinker, f"Hm, Oslo?</think>{CALLS}"))
    with (
        serving(scripted) as server,
        openai.OpenAI(base_url=f"{server.url}/v1", api_key="none") as client,
    ):
        answer = both(client, tools=[WEATHER], max_tokens=400)
        assert answer["reasoning"] == "Hm, Oslo?"
        assert answer["content"] == "I look."
        assert answer["reason"] == "tool_calls"
        names = [call[0] for call in answer["calls"]]
        assert names == ["weather", "weather"]
        assert [eval(call[1]) for call in answer["calls"]] == [
            {"city": "Oslo"},
            {"city": "Rome", "days": 2},
        ]
        prompt = thinker.tokenizer.decode(  # type: ignore[union-attr]
            scripted.submitted[0].prompt_ids, skip_special_tokens=False
        )
        assert "The weather of a city." in prompt


def test_an_unfinished_call_is_text_streamed_and_not(thinker: LLM) -> None:
    """B061."""
    text = "</think>So:<tool_call>weather<arg_key>city</arg_key><arg_value>Os"
    with (
        serving(Scripted(thinker, said(thinker, text, "length"))) as server,
        openai.OpenAI(base_url=f"{server.url}/v1", api_key="none") as client,
    ):
        answer = both(client, tools=[WEATHER])
        assert answer["calls"] == []
        assert answer["content"] == text.removeprefix("</think>")
        assert answer["reason"] == "length"


def test_conversation_with_tool_results_is_rendered(thinker: LLM) -> None:
    call = {"name": "weather", "arguments": '{"city": "Oslo"}'}
    messages = [
        {"role": "developer", "content": "Be brief."},
        *QUESTION,
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "call_1", "type": "function", "function": call}],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": [{"type": "text", "text": "rain"}]},
    ]
    scripted = Scripted(thinker, said(thinker, "It rains."))
    with (
        serving(scripted) as server,
        openai.OpenAI(base_url=f"{server.url}/v1", api_key="none") as client,
    ):
        both(client, messages=messages, tools=[WEATHER])
    assert thinker.tokenizer is not None
    prompt = thinker.tokenizer.decode(scripted.submitted[0].prompt_ids, skip_special_tokens=False)
    for part in ("Be brief.", "Oslo", "rain"):
        assert part in prompt


def test_completions(openai_client: openai.OpenAI, llm: LLM) -> None:
    asked: dict[str, Any] = {"model": "demo", "temperature": 0, "max_tokens": 8}
    own = llm.generate("The hummingbird", replace(llm.default_params, temperature=0, max_tokens=8))
    ids = llm.tokenizer.encode("The hummingbird", True)  # type: ignore[union-attr]
    for prompt in ("The hummingbird", ids, ["The hummingbird"], [ids]):
        answer = openai_client.completions.create(prompt=prompt, **asked)
        assert answer.choices[0].text == own.text
        chunks = list(openai_client.completions.create(prompt=prompt, stream=True, **asked))
        assert "".join(c.choices[0].text for c in chunks if c.choices) == own.text
        assert chunks[-1].choices[0].finish_reason == answer.choices[0].finish_reason


def test_a_batch_has_n_answers_a_prompt(openai_client: openai.OpenAI) -> None:
    prompts = ["The hummingbird", "A cat", "Once upon a time"]
    asked: dict[str, Any] = {"model": "demo", "max_tokens": 5, "seed": 2, "n": 2}
    batch = openai_client.completions.create(prompt=prompts, **asked)
    assert [choice.index for choice in batch.choices] == list(range(6))
    single = openai_client.completions.create(prompt="A cat", **asked)
    assert [c.text for c in batch.choices[2:4]] == [c.text for c in single.choices]
    streamed = [""] * 6
    for chunk in openai_client.completions.create(prompt=prompts, stream=True, **asked):
        for choice in chunk.choices:
            streamed[choice.index] += choice.text
    assert streamed == [choice.text for choice in batch.choices]


def test_a_batch_larger_than_the_queue_is_answered(llm: LLM) -> None:
    """Its members wait for each other, not for a refusal."""
    with (
        serving(llm) as server,
        openai.OpenAI(base_url=f"{server.url}/v1", api_key="none") as client,
    ):
        prompts = [f"The number {i}" for i in range(60)]
        batch = client.completions.create(model="demo", prompt=prompts, max_tokens=2)
        assert len(batch.choices) == 60


def test_a_wish_beyond_the_context_is_clamped_with_a_notice(openai_client: openai.OpenAI) -> None:
    """B080: what many clients send by default is not refused."""
    for limit in (16384, 10**12):
        raw = openai_client.chat.completions.with_raw_response.create(
            model="demo", messages=QUESTION, max_tokens=limit, temperature=0
        )
        assert str(limit) in raw.headers["x-colibri-notice"]
        assert raw.parse().choices[0].finish_reason == "stop"
    raw = openai_client.chat.completions.with_raw_response.create(
        model="demo", messages=QUESTION, max_tokens=20
    )
    assert "x-colibri-notice" not in raw.headers


@pytest.mark.parametrize(
    ("asked", "param"),
    [
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"temperature": 2.5}, "temperature"),
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"n": 0}, "n"),
        ({"stop": ""}, "stop"),
        ({"store": True}, "store"),
        ({"audio": {"voice": "alloy", "format": "wav"}}, "audio"),
        ({"functions": []}, "functions"),
        ({"prediction": {"type": "content", "content": "x"}}, "prediction"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"max_tokens": 3, "max_completion_tokens": 4}, "max_tokens"),
    ],
    ids=str,
)
def test_what_cannot_be_honoured_is_refused_by_name(
    openai_client: openai.OpenAI, asked: dict[str, Any], param: str
) -> None:
    with pytest.raises(openai.BadRequestError) as refusal:
        openai_client.chat.completions.create(model="demo", messages=QUESTION, **asked)
    assert refusal.value.param == param
    assert param in refusal.value.message


def test_a_prompt_longer_than_the_context_is_refused_with_both_numbers(
    openai_client: openai.OpenAI, server: Running
) -> None:
    """B060: never cut."""
    for prompt in ("word " * 3000, "x" * 400_000):
        with pytest.raises(openai.BadRequestError, match="2047") as refusal:
            openai_client.completions.create(model="demo", prompt=prompt)
        assert refusal.value.code == "context_length_exceeded"
        for stream in (False, True):
            with pytest.raises(openai.BadRequestError) as refusal:
                openai_client.chat.completions.create(
                    model="demo", messages=[{"role": "user", "content": prompt}], stream=stream
                )
            assert refusal.value.code == "context_length_exceeded"


def test_models_and_unknown_models(openai_client: openai.OpenAI) -> None:
    assert [model.id for model in openai_client.models.list()] == ["demo"]
    assert openai_client.models.retrieve("demo").id == "demo"
    with pytest.raises(openai.NotFoundError, match="demo"):
        openai_client.chat.completions.create(model="gpt-4o", messages=QUESTION)


def test_an_operators_default_holds_where_a_request_says_nothing(llm: LLM) -> None:
    """B082."""
    with (
        serving(llm, {"temperature": 0.0, "max_tokens": 9}) as server,
        openai.OpenAI(base_url=f"{server.url}/v1", api_key="none") as client,
    ):
        asked: dict[str, Any] = {"model": "demo", "messages": STORY}
        texts = {client.chat.completions.create(**asked).choices[0].message.content for _ in "ab"}
        assert texts == {
            llm.chat(STORY, replace(llm.default_params, temperature=0, max_tokens=9)).text
        }
        other = client.chat.completions.create(temperature=1.9, seed=4, max_tokens=12, **asked)
        assert other.choices[0].message.content not in texts
        assert other.usage is not None
        assert other.usage.completion_tokens > 9


def test_an_answers_message_may_be_given_back(thinker: LLM) -> None:
    """As the client's object, as a dictionary with all its fields, or gathered from a stream."""
    scripted = Scripted(thinker, said(thinker, f"Hm.</think>{CALLS}"))
    with (
        serving(scripted) as server,
        openai.OpenAI(base_url=f"{server.url}/v1", api_key="none") as client,
    ):
        asked: dict[str, Any] = {"model": "demo", "tools": [WEATHER], "max_tokens": 400}
        message = client.chat.completions.create(messages=QUESTION, **asked).choices[0].message
        gathered: dict[str, Any] = {"role": "", "content": "", "tool_calls": []}
        for chunk in client.chat.completions.create(messages=QUESTION, stream=True, **asked):
            delta = chunk.choices[0].delta.model_dump(exclude_unset=True)
            gathered["tool_calls"] += delta.pop("tool_calls", [])
            for name, value in delta.items():
                gathered[name] = gathered.get(name, "") + value
        assert gathered["tool_calls"][1]["index"] == 1
        for given in (message, message.model_dump(), gathered):
            results = [
                {"role": "tool", "tool_call_id": "x", "content": "rain"},
                {"role": "tool", "tool_call_id": "y", "content": "sun"},
            ]
            client.chat.completions.create(messages=[*QUESTION, given, *results], **asked)  # type: ignore[list-item]
    prompts = [tuple(request.prompt_ids) for request in scripted.submitted[2:]]
    assert len(prompts) == 3
    assert len(set(prompts)) == 1

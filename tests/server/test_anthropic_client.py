"""Anthropic's own client, streamed and not, errors included."""

from __future__ import annotations

from typing import Any

import anthropic
import pytest
from server_kit import Scripted, said, serving

from colibri import LLM

QUESTION: list[Any] = [{"role": "user", "content": "What is the capital of Portugal?"}]
WEATHER = {
    "name": "weather",
    "description": "The weather of a city.",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}},
}


def both(client: anthropic.Anthropic, **asked: Any) -> anthropic.types.Message:
    """The answer, which is the same streamed and not."""
    asked = {"model": "demo", "messages": QUESTION, "max_tokens": 30} | asked
    whole = client.messages.create(**asked)
    body = {k: v for k, v in asked.items() if k not in ("model", "messages", "max_tokens")}
    with client.messages.stream(
        model="demo", messages=asked["messages"], max_tokens=asked["max_tokens"], **body
    ) as stream:
        streamed = stream.get_final_message()
    assert _shown(streamed) == _shown(whole)
    return whole


def _shown(message: anthropic.types.Message) -> dict[str, Any]:
    """Without what differs from answer to answer: ids, and what of the prompt was cached."""
    shown = message.model_dump(include={"content", "stop_reason", "stop_sequence", "role", "type"})
    for block in shown["content"]:
        if block["type"] == "tool_use":
            assert block.pop("id").startswith("toolu_")
    shown["output_tokens"] = message.usage.output_tokens
    return shown


@pytest.mark.parametrize(
    "asked",
    [
        {"extra_body": {"temperature": 0}},
        {"extra_body": {"temperature": 0}, "system": "Be brief."},
        {
            "extra_body": {"temperature": 0},
            "system": [
                {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}
            ],
        },
        {"extra_body": {"temperature": 0, "top_k": 4, "top_p": 0.9}, "max_tokens": 3},
        {"extra_body": {"temperature": 0}, "stop_sequences": ["zzz", "bon"]},
        {"extra_body": {"temperature": 0}, "metadata": {"user_id": "me"}, "service_tier": "auto"},
        {"extra_body": {"temperature": 0}, "thinking": {"type": "disabled"}},
    ],
    ids=str,
)
def test_parameters_give_the_same_streamed_and_not(
    anthropic_client: anthropic.Anthropic, asked: dict[str, Any]
) -> None:
    message = both(anthropic_client, **asked)
    stops = asked.get("stop_sequences")
    if asked.get("max_tokens") == 3:
        assert message.stop_reason == "max_tokens"
    elif stops:
        assert (message.stop_reason, message.stop_sequence) == ("stop_sequence", "bon")
    else:
        assert message.stop_reason == "end_turn"


def test_thinking_tools_and_their_results(thinker: LLM) -> None:
    text = (
        "Oslo, then.</think>I look.<tool_call>weather<arg_key>city</arg_key>"
        "<arg_value>Oslo</arg_value></tool_call>"
    )
    scripted = Scripted(thinker, said(thinker, text))
    messages: list[Any] = [
        *QUESTION,
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Rome, then.", "signature": ""},
                {"type": "text", "text": "One moment."},
                {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Rome"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": "storm"},
                {
                    "type": "tool_result",
                    "tool_use_id": "toolu_2",
                    "is_error": True,
                    "content": [{"type": "text", "text": "no such city"}],
                },
                {"type": "text", "text": "And Oslo?"},
            ],
        },
    ]
    with (
        serving(scripted) as server,
        anthropic.Anthropic(base_url=server.url, api_key="none") as client,
    ):
        message = both(
            client,
            messages=messages,
            tools=[WEATHER],
            thinking={"type": "enabled", "budget_tokens": 1024},
            max_tokens=1200,
        )
    assert [block.type for block in message.content] == ["thinking", "text", "tool_use"]
    assert message.content[2].input == {"city": "Oslo"}  # type: ignore[union-attr]
    assert message.stop_reason == "tool_use"
    assert thinker.tokenizer is not None
    prompt = thinker.tokenizer.decode(scripted.submitted[0].prompt_ids, skip_special_tokens=False)
    for part in ("Rome, then.", "One moment.", "storm", "Error: no such city", "And Oslo?"):
        assert part in prompt


def test_tokens_are_counted_as_they_will_be_read(
    anthropic_client: anthropic.Anthropic,
) -> None:
    asked: dict[str, Any] = {"model": "demo", "messages": QUESTION, "system": "Be brief."}
    counted = anthropic_client.messages.count_tokens(**asked)
    usage = anthropic_client.messages.create(max_tokens=1, **asked).usage
    assert counted.input_tokens == usage.input_tokens + (usage.cache_read_input_tokens or 0)


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"max_tokens": 0}, "max_tokens"),
        ({"extra_body": {"temperature": 1.5}}, "temperature"),
        ({"extra_body": {"container": "x"}}, "container"),
        ({"tool_choice": {"type": "any"}}, "tool_choice"),
        ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, r"tools\[0\]"),
        (
            {
                "messages": [
                    {
                        "role": "user",
                        "content": [
                            {"type": "image", "source": {"type": "url", "url": "http://a/b.png"}}
                        ],
                    }
                ]
            },
            "image",
        ),
        ({"messages": [*QUESTION, {"role": "assistant", "content": "It is"}]}, r"messages\[1\]"),
    ],
    ids=str,
)
def test_what_cannot_be_honoured_is_refused_in_anthropics_envelope(
    anthropic_client: anthropic.Anthropic, asked: dict[str, Any], says: str
) -> None:
    asked = {"model": "demo", "messages": QUESTION, "max_tokens": 5} | asked
    with pytest.raises(anthropic.BadRequestError, match=says) as refusal:
        anthropic_client.messages.create(**asked)
    body: Any = refusal.value.body
    assert body["type"] == "error"
    assert body["error"]["type"] == "invalid_request_error"


def test_unknown_model(anthropic_client: anthropic.Anthropic) -> None:
    with pytest.raises(anthropic.NotFoundError, match="demo"):
        anthropic_client.messages.create(model="claude", messages=QUESTION, max_tokens=5)


def test_an_answers_content_may_be_given_back(thinker: LLM) -> None:
    """As the client's objects, as dictionaries with all their fields, or of a stream."""
    text = (
        "Oslo, then.</think>I look.<tool_call>weather<arg_key>city</arg_key>"
        "<arg_value>Oslo</arg_value></tool_call>"
    )
    scripted = Scripted(thinker, said(thinker, text))
    asked: dict[str, Any] = {"model": "demo", "max_tokens": 400, "tools": [WEATHER]}
    with (
        serving(scripted) as server,
        anthropic.Anthropic(base_url=server.url, api_key="none") as client,
    ):
        content = client.messages.create(messages=QUESTION, **asked).content
        with client.messages.stream(messages=QUESTION, **asked) as stream:
            streamed = stream.get_final_message().content
        assert [block.type for block in content] == ["thinking", "text", "tool_use"]
        for given in (content, [block.model_dump() for block in content], streamed):
            (use,) = (b if isinstance(b, dict) else b.model_dump() for b in given[2:])
            result = {"type": "tool_result", "tool_use_id": use["id"], "content": "rain"}
            turns = [{"role": "assistant", "content": given}, {"role": "user", "content": [result]}]
            client.messages.create(messages=[*QUESTION, *turns], **asked)
    prompts = [tuple(request.prompt_ids) for request in scripted.submitted[2:]]
    assert len(prompts) == 3
    assert len(set(prompts)) == 1

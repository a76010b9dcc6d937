"""Structures and forced calls through the public class: the embedded model under the masks."""

import json
import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from colibri import LLM, SamplingParams, Structure
from colibri.errors import ConfigError, GrammarError, TokenizerError
from colibri.llm import embedded_model
from colibri.text.builtin import built_in

QUESTION = [{"role": "user", "content": "Tell me about a cat."}]
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "age": {"type": "integer", "minimum": 0, "maximum": 20},
        "colours": {"type": "array", "items": {"enum": ["red", "grün"]}, "maxItems": 2},
    },
    "required": ["name", "age"],
    "additionalProperties": False,
}
STRICT = Structure.json_schema(SCHEMA)
WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "maxLength": 8}, "days": {"enum": [1, 2]}},
            "required": ["city", "days"],
        },
    },
}
TOOLS = [WEATHER, {"type": "function", "function": {"name": "time"}}]
HERMES = "{% for m in messages %}{{ m.content }}{% endfor %}{% if tools %}<tool_call>{% endif %}:"


@pytest.fixture(scope="module")
def demo() -> Any:
    with LLM() as llm:
        yield llm


@pytest.fixture(scope="module")
def speaking(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """speaking(family): the embedded model with another's chat template."""
    models: dict[str, LLM] = {}

    def model(family: str) -> LLM:
        if family not in models:
            path = tmp_path_factory.mktemp("models") / family
            shutil.copytree(embedded_model(), path)
            own = built_in(family)
            (path / "chat_template.jinja").write_text(_only(own[1]) if own else HERMES)
            models[family] = LLM(path)
        return models[family]

    yield model
    for llm in models.values():
        llm.close()


def _only(sources: Any) -> str:
    return sources if isinstance(sources, str) else next(iter(sources.values()))


Speaking = Callable[[str], LLM]


@pytest.mark.parametrize("temperature", [0.0, 0.7, 2.0])
def test_answers_validate_at_any_temperature(demo: LLM, temperature: float) -> None:
    for seed in range(3):
        params = SamplingParams(
            temperature=temperature, seed=seed, max_tokens=120, structure=STRICT
        )
        answer = demo.chat(QUESTION, params)
        assert answer.finish_reason == "stop"
        jsonschema.validate(json.loads(answer.text), SCHEMA)


def test_a_raw_prompt_goes_on_in_the_structure(demo: LLM) -> None:
    params = SamplingParams(temperature=0, max_tokens=20, structure=Structure.regex(" (cat|dog)"))
    assert demo.generate("I have a", params).text in (" cat", " dog")


def test_an_answer_that_is_cut_says_so(demo: LLM) -> None:
    whole = demo.chat(QUESTION, SamplingParams(temperature=0, max_tokens=120, structure=STRICT))
    for length in (1, len(whole.token_ids) - 1):
        params = SamplingParams(temperature=0, max_tokens=length, structure=STRICT)
        cut = demo.chat(QUESTION, params)
        assert cut.finish_reason == "length"
        assert whole.text.startswith(cut.text)
    exact = SamplingParams(temperature=0, max_tokens=len(whole.token_ids), structure=STRICT)
    assert demo.chat(QUESTION, exact).finish_reason == "stop"


def test_others_of_the_batch_are_as_alone(demo: LLM) -> None:
    import dataclasses

    free = SamplingParams(temperature=0.8, seed=3, max_tokens=16, logprobs=2)
    bound = dataclasses.replace(free, structure=STRICT, max_tokens=40)
    alone = [demo.generate("The cat", free), demo.generate("The cat", bound)]
    asked = [demo.request("The cat", params) for params in (free, bound, free)]
    for answer in asked:
        demo.submit(answer)
    together = [answer.complete() for answer in asked]
    assert [t.token_ids for t in together] == [alone[i].token_ids for i in (0, 1, 0)]
    assert [t.logprobs for t in together] == [alone[i].logprobs for i in (0, 1, 0)]


def test_logprobs_are_of_the_unmodified_distribution(demo: LLM) -> None:
    prompt = demo.render(QUESTION)
    params = SamplingParams(temperature=0, max_tokens=30, logprobs=1, structure=STRICT)
    answer = demo.generate(prompt, params)
    free = demo.generate(prompt, SamplingParams(temperature=0, max_tokens=1, logprobs=1))
    assert answer.logprobs is not None
    assert free.logprobs is not None
    assert answer.logprobs[0].top == free.logprobs[0].top
    assert answer.logprobs[0].logprob < free.logprobs[0].logprob


def test_a_bias_cannot_break_out(demo: LLM) -> None:
    at = SamplingParams(
        temperature=0,
        max_tokens=60,
        structure=STRICT,
        logit_bias={i: 100.0 for i in range(200, 400)},
    )
    answer = demo.chat(QUESTION, at)
    assert answer.finish_reason == "length" or json.loads(answer.text)


def test_ignore_eos_ends_with_the_structure(demo: LLM) -> None:
    params = SamplingParams(ignore_eos=True, structure=Structure.choice(["cat", "dog"]))
    answer = demo.chat(QUESTION, params)
    assert (answer.text in ("cat", "dog"), answer.finish_reason) == (True, "stop")


def test_a_refused_structure_reaches_no_engine(demo: LLM) -> None:
    before = demo.stats().prefill_tokens
    for structure in (Structure.regex("("), Structure.lark("start: x"), Structure.json_schema("5")):
        with pytest.raises(GrammarError):
            demo.chat(QUESTION, SamplingParams(structure=structure))
    assert demo.stats().prefill_tokens == before
    assert demo.chat(QUESTION, SamplingParams(temperature=0, max_tokens=3)).text


def test_a_model_without_a_tokenizer_has_no_structures(model_of: Any, tmp_path: Path) -> None:
    path = tmp_path / "model"
    shutil.copytree(model_of("olmoe", "source"), path)
    (path / "tokenizer.json").unlink(missing_ok=True)
    with LLM(path) as llm, pytest.raises(TokenizerError, match="no tokenizer"):
        llm.generate([1, 2], SamplingParams(structure=STRICT))


FAMILIES = ("glm_moe_dsa", "qwen3_5_moe", "hermes")
BY_NAME = {"type": "function", "function": {"name": "weather"}}


@pytest.mark.parametrize("family", FAMILIES)
def test_forced_calls(speaking: Speaking, family: str) -> None:
    llm = speaking(family)
    for seed in range(2):
        params = SamplingParams(seed=seed, max_tokens=400)
        answer = llm.chat(QUESTION, params, tools=TOOLS, tool_choice=BY_NAME, thinking=False)
        assert (answer.finish_reason, answer.text) == ("tool_calls", "")
        [call] = answer.tool_calls
        assert call.name == "weather"
        jsonschema.validate(call.parsed(), WEATHER["function"]["parameters"])  # type: ignore[index]
        answer = llm.chat(
            QUESTION,
            params,
            tools=TOOLS,
            tool_choice="required",
            thinking=False,
            parallel_tool_calls=False,
        )
        assert answer.finish_reason == "tool_calls"
        assert len(answer.tool_calls) == 1


@pytest.mark.parametrize("family", FAMILIES)
def test_streamed_calls_are_the_same(speaking: Speaking, family: str) -> None:
    from colibri.text.parts import whole_calls

    llm, params = speaking(family), SamplingParams(seed=1, max_tokens=400)
    how = {"tools": TOOLS, "tool_choice": BY_NAME, "thinking": False}
    chunks = list(llm.stream_chat(QUESTION, params, **how))
    whole = llm.chat(QUESTION, params, **how)
    assert whole_calls(d for c in chunks for d in c.tool_calls) == whole.tool_calls
    assert chunks[-1].finish_reason == whole.finish_reason == "tool_calls"


def test_reasoning_comes_first_and_free(speaking: Speaking) -> None:
    """The embedded model does not end it of itself: a bias makes it."""
    llm = speaking("glm_moe_dsa")
    close = llm.tokenizer.token_id("</think>") if llm.tokenizer else None
    assert close is not None
    params = SamplingParams(seed=2, max_tokens=200, structure=STRICT, logit_bias={close: 12.0})
    answer = llm.chat(QUESTION, params)
    jsonschema.validate(json.loads(answer.text), SCHEMA)
    assert close in answer.token_ids
    unended = SamplingParams(seed=2, max_tokens=30, structure=STRICT, logit_bias={close: -100.0})
    answer = llm.chat(QUESTION, unended)
    assert (answer.text, answer.finish_reason) == ("", "length")


def test_auto_changes_nothing_until_a_call_begins(speaking: Speaking) -> None:
    llm, params = speaking("hermes"), SamplingParams(temperature=0.5, seed=4, max_tokens=30)
    prompt = llm.render(QUESTION, tools=TOOLS)
    assert (
        llm.chat(QUESTION, params, tools=TOOLS).token_ids == llm.generate(prompt, params).token_ids
    )


def test_a_tool_that_is_not_held_to_its_schema_is_said(
    speaking: Speaking, caplog: pytest.LogCaptureFixture
) -> None:
    odd = {"type": "function", "function": {"name": "odd", "parameters": {"not": {}}}}
    llm, params = speaking("hermes"), SamplingParams(max_tokens=2)
    with caplog.at_level(logging.WARNING, "colibri"):
        llm.chat(QUESTION, params, tools=[*TOOLS, odd])
    assert "tool odd: json_schema: 'not' at the top" in caplog.text
    with pytest.raises(GrammarError, match="tool odd"):
        llm.chat(QUESTION, params, tools=[*TOOLS, odd], tool_choice="required")


def test_a_structure_and_tools_are_one_or_the_other(speaking: Speaking) -> None:
    llm = speaking("hermes")
    params = SamplingParams(temperature=0, max_tokens=120, structure=STRICT)
    answer = llm.chat(QUESTION, params, tools=TOOLS, parallel_tool_calls=False)
    assert answer.finish_reason in ("stop", "tool_calls")
    assert bool(answer.tool_calls) != bool(answer.text)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tool_choice": "required"}, "there are no tools"),
        ({"tool_choice": "any", "tools": TOOLS}, "auto, none, required or a function"),
        ({"tool_choice": {"function": {"name": "no"}}, "tools": TOOLS}, "names 'no'"),
        ({"tool_choice": {"type": "function"}, "tools": TOOLS}, "tool_choice is"),
        ({"tool_choice": ["auto"], "tools": TOOLS}, "tool_choice is"),
        ({"parallel_tool_calls": "no", "tools": TOOLS}, "parallel_tool_calls is 'no'"),
    ],
)
def test_bad_choices_are_named(speaking: Speaking, options: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        speaking("hermes").chat(QUESTION, **options)


def test_a_call_cannot_be_forced_where_its_form_is_not_known(tmp_path: Path) -> None:
    path = tmp_path / "model"
    shutil.copytree(embedded_model(), path)
    (path / "chat_template.jinja").write_text("{{ tools }}{{ messages[0].content }}")
    with LLM(path) as llm, pytest.raises(ConfigError, match="form of tool calls is not known"):
        llm.chat(QUESTION, tools=TOOLS, tool_choice="required")

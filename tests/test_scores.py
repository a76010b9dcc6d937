"""Closed answers: the options' tokens, their probabilities, and what is refused."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from colibri import LLM, SamplingParams
from colibri.engine.request import BranchLogprobs, Failed, Finished, Request
from colibri.errors import Cancelled, CapacityError, ConfigError, ReadError
from colibri.llm import embedded_model
from colibri.llm.scores import Scores, Scoring, entropy, joint_ids, rows_of, softmax

OPTIONS = [" yes", " no", " no way at all"]
CONTEXT = "Is the sky blue? Answer:"


@pytest.fixture(scope="module")
def demo() -> Iterator[LLM]:
    with LLM() as llm:
        yield llm


def test_an_option_has_the_sum_of_its_tokens_when_decoded(demo: LLM) -> None:
    """To the bit: each token forced by its bias, its log-probability that of plain decoding."""
    scores = demo.score_choices(CONTEXT, OPTIONS, normalize="sum")
    prompt = demo.tokenizer.encode(CONTEXT, True)
    for choice in scores.choices:
        ids = demo.tokenizer.encode(CONTEXT + choice.option, True)
        shared, found = len(prompt), []
        assert ids[:shared] == prompt
        for n in range(shared, len(ids)):
            bias = SamplingParams(
                temperature=0, max_tokens=1, logit_bias={ids[n]: 100.0}, logprobs=0
            )
            (token,) = demo.generate(ids[:n], bias).logprobs
            assert token.token_id == ids[n]
            found.append(token.logprob)
        assert choice.logprob == math.fsum(found)
        assert choice.tokens == len(ids) - shared
        assert choice.mean_logprob == choice.logprob / choice.tokens
    assert math.isclose(sum(choice.p for choice in scores.choices), 1.0)
    yes, no, longer = (math.exp(choice.logprob) for choice in scores.choices)
    assert math.isclose(scores.choices[0].p / scores.choices[1].p, yes / (no - longer))


def test_it_is_what_prompt_logprobs_say(demo: LLM) -> None:
    (choice, *_) = demo.score_choices(CONTEXT, OPTIONS).choices
    params = SamplingParams(max_tokens=0, prompt_logprobs=0)
    echoed = demo.generate(CONTEXT + choice.option, params)
    assert echoed.prompt_logprobs[0] is None
    assert echoed.finish_reason == "length"
    assert echoed.token_ids == ()
    tail = [entry.logprob for entry in echoed.prompt_logprobs[-choice.tokens :]]
    assert choice.logprob == math.fsum(tail)


def test_a_raw_context_begins_as_the_models_prompts_do(demo: LLM, tmp_path: Path) -> None:
    """B084: with the special tokens of a prompt, or the numbers are another text's."""
    for path in embedded_model().iterdir():
        (tmp_path / path.name).symlink_to(path)
    config = tmp_path / "tokenizer_config.json"
    said = json.loads(config.read_text())
    config.unlink()
    config.write_text(json.dumps(said | {"bos_token": "[gMASK]", "add_bos_token": True}))
    with LLM(tmp_path) as llm:
        scores = llm.score_choices(CONTEXT, OPTIONS)
        params = SamplingParams(max_tokens=0, prompt_logprobs=0)
        for choice in scores.choices:
            echoed = llm.generate(CONTEXT + choice.option, params).prompt_logprobs
            tail = [entry.logprob for entry in echoed[-choice.tokens :]]
            assert choice.logprob == math.fsum(tail)
        assert scores.prompt_tokens == demo.score_choices(CONTEXT, OPTIONS).prompt_tokens + 1
        assert scores.choices != demo.score_choices(CONTEXT, OPTIONS).choices


def test_a_conversation_is_read_once_for_many_questions(demo: LLM) -> None:
    messages = [{"role": "user", "content": "Tell me of the sky. " * 12}]
    first = demo.score_choices(None, ["Yes.", "No."], messages=messages)
    again = demo.score_choices(None, ["Red.", "Blue.", "Green."], messages=messages)
    assert first.cached_tokens < 20
    assert again.cached_tokens == again.prompt_tokens - 1
    assert again.read_tokens < first.read_tokens / 2


@pytest.mark.parametrize("off", [{"thinking": False}, {"reasoning_effort": "none"}], ids=str)
def test_a_model_that_always_reasons_answers_at_once(tmp_path: Path, off: dict[str, Any]) -> None:
    """Its template has no switch: the options stood where its first thought would."""
    for path in embedded_model().iterdir():
        if path.name != "chat_template.jinja":
            (tmp_path / path.name).symlink_to(path)
    always = "{%- set end = '</think>' -%}{{ messages[-1].content }}<|assistant|><think>"
    (tmp_path / "chat_template.jinja").write_text(always)
    asked = [{"role": "user", "content": "Is it red?"}]
    with LLM(tmp_path, ram="2GB") as llm:
        scoring = llm.score_request(None, ["yes", "no"], messages=asked, **off)
        want = llm.tokenizer.encode("Is it red?<|assistant|><think></think>", False)
        assert scoring.request.prompt_ids == want
        left = llm.score_request(None, ["yes", "no"], messages=asked)
        assert left.request.prompt_ids == llm.render(asked)


def test_the_answer_changes_with_normalize_and_says_so(demo: LLM) -> None:
    by_mean = demo.score_choices(CONTEXT, OPTIONS, normalize="mean")
    by_sum = demo.score_choices(CONTEXT, OPTIONS)
    assert [c.logprob for c in by_mean.choices] == [c.logprob for c in by_sum.choices]
    best = [
        max(by_mean.choices, key=lambda choice: choice.mean_logprob).option,
        max(by_mean.choices, key=lambda choice: choice.logprob).option,
    ]
    assert [by_mean.best.option, by_sum.best.option] == best
    assert bool(by_mean.warnings) == (best[0] != best[1])


def test_lengths_that_decide_are_warned_of() -> None:
    request = Request([1, 2, 3], SamplingParams(), branches=[[4], [5, 6, 7]])
    scoring = Scoring(request, ["a", "b c d"], "mean")
    scores = scoring.push(BranchLogprobs(((-3.0,), (-2.0, -2.0, -2.0))))
    assert isinstance(scores, Scores)
    assert scores.best.option == "b c d"
    (warning,) = scores.warnings
    assert "1 to 3 tokens" in warning
    assert "by mean it is 'b c d', by sum 'a'" in warning
    assert scoring.push(Finished("stop")) is None
    alike = Scoring(request, ["a", "b"], "sum").push(BranchLogprobs(((-1.0,), (-9.0, -9.0))))
    assert isinstance(alike, Scores)
    assert alike.warnings == ()


def test_a_question_that_fails_or_is_given_up_says_so() -> None:
    scoring = Scoring(Request([1], SamplingParams()), ["a", "b"], "mean")
    with pytest.raises(ReadError):
        scoring.push(Failed(ReadError("gone")))
    with pytest.raises(Cancelled):
        scoring.push(Finished("cancelled"))


def test_what_merges_with_the_context_belongs_to_every_option() -> None:
    """A tokenizer of pairs: "ab" "c", but "ab" "cd"."""

    def encode(text: str) -> list[int]:
        return [
            ord(text[i]) * 1000 + sum(map(ord, text[i : i + 2])) for i in range(0, len(text), 2)
        ]

    prompt, options = joint_ids(encode, [], "abc", ["d", "x", "dxyz"])
    assert prompt == encode("ab")
    assert [len(option) for option in options] == [1, 1, 3]
    assert options[0] == encode("cd")
    prompt, options = joint_ids(encode, [7], "abcd", ["x", "y"])
    assert prompt == [7, *encode("abcd")]
    with pytest.raises(ConfigError, match="give a longer one"):
        joint_ids(encode, [], "a", ["b", "c"])
    assert joint_ids(encode, [7], "a", ["b", "c"])[0] == [7]


def test_a_long_context_is_tokenised_once(demo: LLM) -> None:
    lengths: list[int] = []

    def encode(text: str) -> list[int]:
        lengths.append(len(text))
        return demo.tokenizer.encode(text, add_special_tokens=False)

    context = "The quick brown fox jumps over the lazy dog, again and again. " * 200
    prompt, options = joint_ids(encode, [], context, OPTIONS)
    assert [prompt + ids for ids in options] == [encode(context + option) for option in OPTIONS]
    assert sum(lengths[:-3]) < 3 * len(context)


def test_rows_are_counted_once() -> None:
    assert rows_of([[1], [2]]) == 0
    assert rows_of([[1, 2], [1, 3], [1, 2, 4]]) == 2


def test_entropy_and_probabilities() -> None:
    assert entropy([0.25] * 4) == 1.0
    assert entropy([1.0, 0.0]) == 0.0
    assert softmax([-1e4, -1e4]) == [0.5, 0.5]
    assert softmax([0.0, -1e6]) == [1.0, 0.0]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["a"], "1 option; 2 to 64"),
        ([str(n) for n in range(65)], "65 options"),
        (["a", ""], "an option is empty"),
        (["a", "b", "a"], "'a' is there twice"),
        ("ab", "list of texts"),
        (["a", 5], "list of texts"),
    ],
)
def test_options_are_checked(demo: LLM, options: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        demo.score_choices("x", options)


def test_the_rest_is_checked(demo: LLM) -> None:
    with pytest.raises(ConfigError, match="mean or sum"):
        demo.score_choices("x", OPTIONS, normalize="best")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="one of them"):
        demo.score_choices(None, OPTIONS)
    with pytest.raises(CapacityError, match="leaves room"):
        demo.score_choices("word " * 3000, OPTIONS)

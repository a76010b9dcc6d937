"""Closed answers are compared where the model's own answer would name one of them."""

from collections.abc import Iterator
from typing import Any

import pytest

from benchmarks.closed_answers import Question, questions
from colibri import LLM
from colibri.engine.request import Finished, Request, Token
from colibri.errors import Cancelled, ConfigError
from colibri.llm.leadin import FAINT, LeadIn, Place
from colibri.llm.scores import joint_branches
from colibri.sampling import SamplingParams


@pytest.fixture(scope="module")
def demo() -> Iterator[LLM]:
    with LLM() as llm:
        yield llm


def ask(llm: LLM, question: str, *options: str, **wish: Any) -> Any:
    messages = [{"role": "user", "content": question}]
    return llm.score_choices(None, options, messages=messages, thinking=False, **wish)


def test_a_capital_is_what_the_chat_says(demo: LLM) -> None:
    scores = ask(demo, "What is the capital of France?", "Paris", "Rome", "Berlin")
    assert scores.best.option == "Paris"
    assert scores.best.p > 0.99
    assert scores.lead_in == "The capital of France is"
    assert 0 < scores.generated_tokens <= 24
    assert scores.warnings == ()


@pytest.mark.parametrize(
    ("question", "options"),
    [
        ("What is the capital of Mexico?", ["Mexico", "Mexico City", "Madrid"]),  # begins another
        ("What is the capital of India?", ["Delhi", "New Delhi", "New York"]),  # ends another
        ("Which day comes after Monday?", ["Tuesday", "the day after Thursday", "Sunday"]),
        ("What is a young dog called?", ["a puppy", "lamb", "a very young little kitten"]),
    ],
)
def test_options_of_unequal_length(demo: LLM, question: str, options: list[str]) -> None:
    scores = ask(demo, question, *options)
    assert min(c.tokens for c in scores.choices) < max(c.tokens for c in scores.choices)
    right = {"Mexico": "Mexico City", "India": "New Delhi", "Monday": "Tuesday", "dog": "a puppy"}
    assert scores.best.option == next(v for k, v in right.items() if k in question)


def test_more_is_right_than_chance_and_than_at_the_beginning(demo: LLM) -> None:
    """The whole measurement is benchmarks/closed_answers.py; these are its first capitals."""
    some = [q for q in questions() if q.kind == "capital"][:20]

    def in_its_own_answer(question: Question) -> bool:
        return bool(ask(demo, question.text, *question.options).best.option == question.right)

    def at_the_beginning(question: Question) -> bool:
        asked = [{"role": "user", "content": question.text}]
        scoring = demo.score_request(None, question.options, messages=asked, thinking=False)
        demo.submit(scoring)
        return scoring.wait().best.option == question.right

    assert sum(map(in_its_own_answer, some)) >= 15
    assert sum(map(at_the_beginning, some)) <= 10


def test_a_conversation_is_rendered_once(demo: LLM, monkeypatch: pytest.MonkeyPatch) -> None:
    rendered = []
    render = type(demo._asker).rendered
    monkeypatch.setattr(
        type(demo._asker), "rendered", lambda *asked: rendered.append(asked) or render(*asked)
    )
    ask(demo, "What do bees make?", "honey", "milk")
    assert len(rendered) == 1


def test_an_answer_that_names_no_option_says_so(demo: LLM) -> None:
    scores = ask(demo, "What do bees make?", "zzyzx", "qqqqq")
    assert scores.lead_in == ""
    assert "names none of the options" in scores.warnings[0]


def test_a_raw_context_has_its_place_already(demo: LLM) -> None:
    scores = demo.score_choices("The sky is", [" blue", " red"])
    assert (scores.lead_in, scores.generated_tokens) == ("", 0)


def test_bad_options_are_refused_before_anything_is_written(demo: LLM) -> None:
    before = demo.stats().decode_tokens
    with pytest.raises(ConfigError, match="there twice"):
        ask(demo, "What do bees make?", "honey", "honey")
    assert demo.stats().decode_tokens == before


LETTERS = "abcdefghijklmnopqrstuvwxyz .YN"


def watched(options: list[str], answer: str, tops: dict[int, dict[str, float]]) -> Any:
    """The places of an answer of one token a letter; tops: probabilities at some of its places."""
    request = Request([1], SamplingParams())
    lead_in = LeadIn(request, lambda ids: "".join(LETTERS[i] for i in ids), options)
    import math

    for at, letter in enumerate(answer):
        alternatives = tops.get(at, {letter: 1.0})
        top = tuple((LETTERS.index(other), math.log(p)) for other, p in alternatives.items())
        made = lead_in.push(Token(LETTERS.index(letter), 0.0, top))
        if made is not None:
            return lead_in.places, lead_in
    lead_in.push(Finished("stop"))
    return lead_in.places, lead_in


def test_places_are_where_options_begin() -> None:
    (best, *_), lead_in = watched(["yes", "no"], "it is so.", {6: {"y": 0.6, "n": 0.3, "s": 0.1}})
    assert (best.lead_in, best.blank, best.capital) == ("it is ", "", False)
    assert best.mass == pytest.approx(0.9)
    assert lead_in.finished
    assert lead_in.request.cancelled


def test_it_ends_once_an_option_is_named_as_a_whole_word() -> None:
    _, lead_in = watched(["no", "yes"], "nothing is no yes.", {})
    assert lead_in.tokens == len("nothing is no ")


def test_an_answer_that_begins_with_a_capital_takes_options_so() -> None:
    (best, *_), _ = watched(["yes", "no"], "Yes.", {0: {"Y": 0.7, "N": 0.2}})
    assert best.capital
    assert best.option("no") == "No"
    assert best.mass == pytest.approx(0.9)


def test_faint_places_are_none() -> None:
    (only,), _ = watched(["yes", "no"], "it.", {0: {"y": FAINT / 3, "i": 0.9}})
    assert not only.found


def test_a_question_that_is_given_up_says_so() -> None:
    lead_in = LeadIn(Request([1], SamplingParams()), str, ["a", "b"])
    with pytest.raises(Cancelled):
        lead_in.push(Finished("cancelled"))


def test_options_at_several_places_share_what_they_can() -> None:
    def encode(text: str) -> list[int]:
        return [ord(letter) for letter in text]

    places = (Place("It is", " "), Place(capital=True))
    prompt, branches, begins = joint_branches(encode, [7], "Q:", ["ab", "c"], places)
    assert prompt == [7, *encode("Q:")]
    assert branches == [*map(encode, ("It is ab", "It is c", "Ab", "C"))]
    assert begins == [5, 0]

"""/v1/score and /v1/brio: closed questions over HTTP."""

from __future__ import annotations

import math
from typing import Any

import httpx2
import pytest
from server_kit import Running

from colibri import LLM

STATE = "The hummingbird is a small bird."
CITIES = ["Lisbon", "Paris", "a small bird"]


def ask(http: httpx2.Client, path: str = "/v1/score", **body: Any) -> Any:
    response = http.post(path, json=body)
    assert response.status_code == 200, response.text
    return response.json()


def test_options_after_a_state_are_the_librarys(http: httpx2.Client, llm: LLM) -> None:
    options = [" It", " The bird", " Blue"]
    own = llm.score_choices(STATE, options)
    answer = ask(http, state=STATE, options=options)
    assert [choice["p"] for choice in answer["choices"]] == [choice.p for choice in own.choices]
    assert answer["answer"] == own.best.option
    assert answer["entropy"] == own.entropy
    assert answer["object"] == "score.choice"
    usage = answer["usage"]
    assert usage["completion_tokens"] == 0
    assert usage["prompt_tokens"] == own.prompt_tokens
    assert usage["read_tokens"] > 0


def test_a_question_is_asked_in_the_models_own_form(http: httpx2.Client, llm: LLM) -> None:
    """B085: p adds up to 1, entropy is from 0 to 1, and sum is the default."""
    question = "What is the capital of Portugal?"
    answer = ask(http, path="/v1/brio", state="", question=question, options=CITIES)
    assert answer["object"] == "brio.choice"
    assert math.isclose(sum(choice["p"] for choice in answer["choices"]), 1)
    assert 0 <= answer["entropy"] <= 1
    messages = [{"role": "user", "content": f"\n\n{question}"}]
    own = llm.score_choices(None, CITIES, messages=messages, thinking=False)
    assert [choice["logprob"] for choice in answer["choices"]] == [c.logprob for c in own.choices]
    assert answer["answer"] == "Lisbon"
    assert answer["lead_in"] == own.lead_in == "The capital of Portugal is"
    assert answer["usage"]["completion_tokens"] == own.generated_tokens > 0
    mean = ask(http, state="", question=question, options=CITIES, normalize="mean")
    assert [c["p"] for c in mean["choices"]] != [c["p"] for c in answer["choices"]]


def test_messages(http: httpx2.Client, llm: LLM) -> None:
    messages = [{"role": "user", "content": "What is the capital of Portugal?"}]
    options = ["The capital of Portugal is Lisbon", "The capital of Portugal is Paris"]
    answer = ask(http, messages=messages, options=options)
    assert answer["answer"] == options[0]
    own = llm.score_choices(None, options, messages=messages, thinking=False)
    assert [choice["p"] for choice in answer["choices"]] == [choice.p for choice in own.choices]


def test_questions_share_what_they_begin_with(http: httpx2.Client) -> None:
    text = " ".join(f"Fact {i}: the bird number {i} is blue." for i in range(30))
    questions = [
        {"question": "What colour is bird 3?", "options": ["blue", "red"]},
        {"question": "Is it small?", "options": ["yes", "no"], "normalize": "sum"},
    ]
    answer = ask(http, state=text, questions=questions)
    assert answer["object"] == "score.answers"
    assert [one["question"] for one in answer["answers"]] == [q["question"] for q in questions]
    assert all(
        one["answer"] in q["options"] for one, q in zip(answer["answers"], questions, strict=True)
    )
    alone = ask(
        http, state=text, **{k: questions[1][k] for k in ("question", "options", "normalize")}
    )
    assert alone["choices"] == answer["answers"][1]["choices"]
    usage = answer["usage"]
    assert usage["read_tokens"] < 0.7 * usage["prompt_tokens"]


def test_a_schema_is_filled_field_by_field(http: httpx2.Client) -> None:
    schema = {"colour": ["blue", "red"], "count": [1, 2, 30], "small": [True, False, None]}
    answer = ask(http, state=STATE, schema=schema, task="Describe the bird.")
    assert answer["object"] == "score.schema"
    assert list(answer["json"]) == list(schema)
    for field in answer["fields"]:
        assert field["value"] in schema[field["field"]]
        assert field["value"] == answer["json"][field["field"]]
        assert 0 <= field["entropy"] <= 1
    assert answer["usage"]["completion_tokens"] == 0


def test_lengths_that_decide_are_told(http: httpx2.Client) -> None:
    """B085."""
    options = [" a", " a small bird that flies in the garden all day"]
    answer = ask(http, state="The hummingbird is", options=options)
    choices = answer["choices"]
    by_sum = max(choices, key=lambda choice: choice["logprob"])
    by_mean = max(choices, key=lambda choice: choice["mean_logprob"])
    assert bool(answer["warnings"]) == (by_sum != by_mean)
    assert choices[1]["tokens"] > choices[0]["tokens"]


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"state": "x", "options": ["a", "b"], "task": "t"}, "task"),
        ({"state": "x", "schema": {"a": [1, 2]}, "question": "q"}, "question"),
        ({"state": "x", "schema": {"a": [1, 1]}}, "schema.a"),
        ({"state": "x", "questions": [{"question": "q", "options": ["a", "a"]}]}, "questions[0]"),
        ({"state": "x", "options": ["a", "b"], "stream": True}, "stream"),
    ],
    ids=str,
)
def test_what_makes_no_sense_is_refused(http: httpx2.Client, body: Any, param: str) -> None:
    response = http.post("/v1/score", json=body)
    assert response.status_code == 400
    assert response.json()["error"]["param"].startswith(param)


def test_a_question_longer_than_the_context(http: httpx2.Client, server: Running) -> None:
    response = http.post("/v1/score", json={"state": "word " * 4000, "options": ["a", "b"]})
    assert response.status_code == 400
    assert response.json()["error"]["code"] == "context_length_exceeded"


def test_an_option_longer_than_the_context_is_named(http: httpx2.Client, llm: LLM) -> None:
    body = {"state": STATE, "options": ["short", "bird " * 3000]}
    refused = http.post("/v1/score", json=body)
    assert refused.status_code == 400
    error = refused.json()["error"]
    assert error["param"] == "options[1]"
    assert "options[1] has 3,0" in error["message"]
    assert "-" not in error["message"].split("--context")[0]

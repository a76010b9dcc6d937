"""/v1/score, also /v1/brio: how likely each of several answers is."""

from typing import Annotated, Any, Literal

from msgspec import Meta

from colibri.server.openai.structs.chat import Message
from colibri.server.structs.base import Input, Output

Option = Annotated[str, Meta(min_length=1)]
Options = Annotated[list[Option], Meta(min_length=2, max_length=64)]
Normalize = Literal["sum", "mean"]
Value = str | int | float | bool | None
Values = Annotated[list[Value], Meta(min_length=2, max_length=64)]


class Question(Input, frozen=True, kw_only=True):
    question: str
    options: Options
    normalize: Normalize | None = None


class ScoreBody(Input, frozen=True, kw_only=True):
    """One of options, questions, schema; one of state, messages."""

    model: str | None = None
    state: str | None = None
    messages: Annotated[list[Message], Meta(min_length=1)] | None = None
    question: str | None = None
    task: str | None = None
    options: Options | None = None
    questions: Annotated[list[Question], Meta(min_length=1, max_length=64)] | None = None
    schema: Annotated[dict[Option, Values], Meta(min_length=1, max_length=64)] | None = None
    normalize: Normalize | None = None  # sum
    user: str | None = None


class ScoredChoice(Output, frozen=True, kw_only=True):
    option: str
    p: float
    logprob: float
    mean_logprob: float
    tokens: int


class ScoreUsage(Output, frozen=True, kw_only=True):
    """completion_tokens: of the model's own answer, written to find where an option would stand.
    read_tokens: computed for this; the rest of the prompt was in the cache."""

    prompt_tokens: int
    completion_tokens: int
    read_tokens: int
    total_tokens: int


class Answered(Output, frozen=True, kw_only=True):
    """lead_in: how the model's own answer begins that the options were compared in."""

    question: str | None
    answer: str
    entropy: float
    choices: list[ScoredChoice]
    lead_in: str
    warnings: list[str]


class ScoreChoice(Output, frozen=True, kw_only=True):
    object: str
    model: str
    answer: str
    entropy: float
    choices: list[ScoredChoice]
    lead_in: str
    warnings: list[str]
    usage: ScoreUsage


class ScoreAnswers(Output, frozen=True, kw_only=True):
    object: str
    model: str
    answers: list[Answered]
    usage: ScoreUsage


class FieldScore(Output, frozen=True, kw_only=True):
    field: str
    value: Value
    p: float
    entropy: float
    choices: list[ScoredChoice]
    warnings: list[str]


class ScoreSchema(Output, frozen=True, kw_only=True):
    object: str
    model: str
    json: dict[str, Any]
    fields: list[FieldScore]
    usage: ScoreUsage

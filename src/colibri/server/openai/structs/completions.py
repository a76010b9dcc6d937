"""/v1/completions."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from colibri.server.structs.base import Output, Sampling, Unsupported, Usage
from colibri.server.structs.formats import ResponseFormat

Id = Annotated[int, Meta(ge=0, le=2**31 - 1)]
MOST_PROMPTS = 128  # of one request


class CompletionBody(Sampling, frozen=True, kw_only=True):
    prompt: str | Annotated[list[str | Id | list[Id]], Meta(min_length=1)]  # of one kind
    max_tokens: Annotated[int, Meta(ge=0)] | None = None
    echo: bool | None = None
    logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    best_of: Annotated[int, Meta(ge=1)] | None = None
    suffix: Unsupported = None
    # Of other local servers.
    response_format: ResponseFormat | None = None


class TextLogprobs(Output, frozen=True, kw_only=True):
    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None]
    text_offset: list[int]


class TextChoice(Output, frozen=True, kw_only=True):
    index: int
    text: str
    logprobs: TextLogprobs | None = None
    finish_reason: Literal["stop", "length"] | None = None


class TextCompletion(Output, frozen=True, kw_only=True):
    """Whole, or a piece of a stream."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    system_fingerprint: str
    choices: list[TextChoice]
    usage: Usage | UnsetType | None = UNSET

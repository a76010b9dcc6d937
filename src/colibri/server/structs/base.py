"""Kinds of values that several requests share."""

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

from colibri.config.sampling import BIAS, NUMBER_BY_NAME, TOKEN_ID, SamplingNumber


def _within(number: SamplingNumber) -> Meta:
    return Meta(ge=number.low, le=number.high)


def _named(name: str) -> Meta:
    return _within(NUMBER_BY_NAME[name])


Temperature = Annotated[float, _named("temperature")]
TopK = Annotated[int, _named("top_k")]
Share = Annotated[float, _named("top_p")]
Penalty = Annotated[float, _named("presence_penalty")]
Tokens = Annotated[int, Meta(ge=1)]
Seed = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Bias = Annotated[float, _within(BIAS)]
TokenId = Annotated[int, _within(TOKEN_ID)]
StopText = Annotated[str, Meta(min_length=1)]
Stop = StopText | Annotated[list[StopText], Meta(max_length=16)]
Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
ToolName = Annotated[str, Meta(min_length=1, max_length=256)]


class Input(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of a request: what it does not name is refused."""


# Of a field that has no place here: its null is the same as nothing, all else is refused.
Unsupported: TypeAlias = None


class Output(Struct, frozen=True, kw_only=True):
    """Of an answer."""


class StreamOptions(Input, frozen=True, kw_only=True):
    include_usage: bool | None = None
    include_obfuscation: bool | None = None


class Sampling(Input, frozen=True, kw_only=True):
    """Fields of both of OpenAI's endpoints. What is not given is the model's own default."""

    model: str | None = None
    temperature: Temperature | None = None
    top_p: Share | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    logit_bias: dict[TokenId, Bias] | None = None
    seed: Seed | None = None
    stop: Stop | None = None
    n: Annotated[int, Meta(ge=1, le=16)] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    # Of other local servers.
    top_k: TopK | None = None
    min_p: Share | None = None
    repetition_penalty: Annotated[float, _named("repetition_penalty")] | None = None
    ignore_eos: bool | None = None
    # Say who asks, and change nothing of an answer.
    user: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    metadata: dict[str, str] | None = None

    @property
    def streams(self) -> bool:
        return bool(self.stream)

    @property
    def wants_usage(self) -> bool:
        return self.stream_options is not None and bool(self.stream_options.include_usage)


class CachedTokens(Output, frozen=True, kw_only=True):
    cached_tokens: int


class WrittenTokens(Output, frozen=True, kw_only=True):
    reasoning_tokens: int


class Usage(Output, frozen=True, kw_only=True):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: CachedTokens
    completion_tokens_details: WrittenTokens

"""/v1/chat/completions."""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType

from colibri.server.structs.base import (
    Effort,
    Input,
    Output,
    Sampling,
    Tokens,
    ToolName,
    Unsupported,
    Usage,
)
from colibri.server.structs.formats import ResponseFormat


class TextPart(Input, frozen=True, kw_only=True, tag_field="type", tag="text"):
    text: str


Content = str | list[TextPart]


class CalledFunction(Input, frozen=True, kw_only=True):
    name: ToolName
    arguments: str


class Call(Input, frozen=True, kw_only=True):
    function: CalledFunction
    id: str | None = None
    type: Literal["function"] | None = None
    index: int | None = None  # as streams have it, and clients that gathered one give it back


class SystemMessage(Input, frozen=True, kw_only=True, tag_field="role", tag="system"):
    content: Content
    name: str | None = None


class DeveloperMessage(Input, frozen=True, kw_only=True, tag_field="role", tag="developer"):
    content: Content
    name: str | None = None


class UserMessage(Input, frozen=True, kw_only=True, tag_field="role", tag="user"):
    content: Content
    name: str | None = None


class AssistantMessage(Input, frozen=True, kw_only=True, tag_field="role", tag="assistant"):
    content: Content | None = None
    reasoning_content: str | None = None
    tool_calls: list[Call] | None = None
    name: str | None = None
    # As answers of others have them, which clients give back as they are.
    annotations: Annotated[list[Any], Meta(max_length=0)] | None = None
    audio: Unsupported = None
    function_call: Unsupported = None
    refusal: Unsupported = None


class ToolMessage(Input, frozen=True, kw_only=True, tag_field="role", tag="tool"):
    content: Content
    tool_call_id: str
    name: str | None = None


Message = SystemMessage | DeveloperMessage | UserMessage | AssistantMessage | ToolMessage


class Function(Input, frozen=True, kw_only=True):
    name: ToolName
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class Tool(Input, frozen=True, kw_only=True):
    type: Literal["function"]
    function: Function


class NamedFunction(Input, frozen=True, kw_only=True):
    name: ToolName


class NamedChoice(Input, frozen=True, kw_only=True):
    type: Literal["function"]
    function: NamedFunction


class ChatBody(Sampling, frozen=True, kw_only=True):
    messages: Annotated[list[Message], Meta(min_length=1)]
    max_tokens: Tokens | None = None
    max_completion_tokens: Tokens | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    tools: Annotated[list[Tool], Meta(max_length=512)] | None = None
    tool_choice: Literal["auto", "none", "required"] | NamedChoice | None = None
    parallel_tool_calls: bool | None = None
    response_format: ResponseFormat | None = None
    reasoning_effort: Effort | None = None
    modalities: list[Literal["text"]] | None = None
    service_tier: Literal["auto", "default"] | None = None
    store: bool | None = None
    # Of other local servers.
    enable_thinking: bool | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    # Of OpenAI's, which some clients send as null.
    audio: Unsupported = None
    function_call: Unsupported = None
    functions: Unsupported = None
    moderation: Unsupported = None
    prediction: Unsupported = None
    prompt_cache_options: Unsupported = None
    prompt_cache_retention: Unsupported = None
    verbosity: Unsupported = None
    web_search_options: Unsupported = None


class TopLogprob(Output, frozen=True, kw_only=True):
    token: str
    logprob: float
    bytes: list[int] | None


class TokenLogprob(Output, frozen=True, kw_only=True):
    token: str
    logprob: float
    bytes: list[int] | None
    top_logprobs: list[TopLogprob]


class Logprobs(Output, frozen=True, kw_only=True):
    content: list[TokenLogprob]


class WrittenFunction(Output, frozen=True, kw_only=True):
    name: str
    arguments: str


class WrittenCall(Output, frozen=True, kw_only=True):
    id: str
    function: WrittenFunction
    type: Literal["function"] = "function"
    index: int | UnsetType = UNSET  # of streams


class WrittenMessage(Output, frozen=True, kw_only=True):
    role: Literal["assistant"]
    content: str | None
    refusal: None = None
    reasoning_content: str | UnsetType = UNSET
    tool_calls: list[WrittenCall] | UnsetType = UNSET


Reason = Literal["stop", "length", "tool_calls"]


class Choice(Output, frozen=True, kw_only=True):
    index: int
    message: WrittenMessage
    logprobs: Logprobs | None
    finish_reason: Reason


class ChatCompletion(Output, frozen=True, kw_only=True):
    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    system_fingerprint: str
    choices: list[Choice]
    usage: Usage


class Delta(Output, frozen=True, kw_only=True):
    role: Literal["assistant"] | UnsetType = UNSET
    content: str | UnsetType = UNSET
    reasoning_content: str | UnsetType = UNSET
    tool_calls: list[WrittenCall] | UnsetType = UNSET


class ChunkChoice(Output, frozen=True, kw_only=True):
    index: int
    delta: Delta
    logprobs: Logprobs | None = None
    finish_reason: Reason | None = None


class ChatChunk(Output, frozen=True, kw_only=True):
    id: str
    object: Literal["chat.completion.chunk"]
    created: int
    model: str
    system_fingerprint: str
    choices: list[ChunkChoice]
    usage: Usage | UnsetType | None = UNSET

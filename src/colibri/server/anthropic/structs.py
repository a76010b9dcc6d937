"""/v1/messages, of Anthropic's API."""

from typing import Annotated, Any, Literal

from msgspec import Meta

from colibri.server.structs.base import (
    Input,
    Output,
    Share,
    StopText,
    Tokens,
    ToolName,
    TopK,
    Unsupported,
)


class CacheControl(Input, frozen=True, kw_only=True):
    """Accepted: every prefix is cached anyway."""

    type: Literal["ephemeral"]
    ttl: Literal["5m", "1h"] | None = None


class TextBlock(Input, frozen=True, kw_only=True, tag_field="type", tag="text"):
    text: str
    cache_control: CacheControl | None = None
    citations: Unsupported = None


class ThinkingBlock(Input, frozen=True, kw_only=True, tag_field="type", tag="thinking"):
    thinking: str
    signature: str | None = None


class ToolUseBlock(Input, frozen=True, kw_only=True, tag_field="type", tag="tool_use"):
    id: str
    name: ToolName
    input: dict[str, Any]
    cache_control: CacheControl | None = None
    caller: Unsupported = None
    toolset_name: Unsupported = None


class ToolResultBlock(Input, frozen=True, kw_only=True, tag_field="type", tag="tool_result"):
    tool_use_id: str
    content: str | list[TextBlock] | None = None
    is_error: bool | None = None
    cache_control: CacheControl | None = None


class UserTurn(Input, frozen=True, kw_only=True, tag_field="role", tag="user"):
    content: str | list[TextBlock | ToolResultBlock]


class AssistantTurn(Input, frozen=True, kw_only=True, tag_field="role", tag="assistant"):
    content: str | list[TextBlock | ThinkingBlock | ToolUseBlock]


class MessageTool(Input, frozen=True, kw_only=True):
    name: ToolName
    input_schema: dict[str, Any]
    description: str | None = None
    type: Literal["custom"] | None = None
    strict: bool | None = None
    cache_control: CacheControl | None = None


class AutoTool(Input, frozen=True, kw_only=True, tag_field="type", tag="auto"):
    disable_parallel_tool_use: bool | None = None


class AnyTool(Input, frozen=True, kw_only=True, tag_field="type", tag="any"):
    disable_parallel_tool_use: bool | None = None


class OneTool(Input, frozen=True, kw_only=True, tag_field="type", tag="tool"):
    name: ToolName
    disable_parallel_tool_use: bool | None = None


class NoTool(Input, frozen=True, kw_only=True, tag_field="type", tag="none"):
    pass


class ThinkingEnabled(Input, frozen=True, kw_only=True, tag_field="type", tag="enabled"):
    budget_tokens: Annotated[int, Meta(ge=1)]
    display: Literal["summarized"] | None = None


class ThinkingAdaptive(Input, frozen=True, kw_only=True, tag_field="type", tag="adaptive"):
    display: Literal["summarized"] | None = None


class ThinkingDisabled(Input, frozen=True, kw_only=True, tag_field="type", tag="disabled"):
    pass


class SchemaFormat(Input, frozen=True, kw_only=True):
    type: Literal["json_schema"]
    schema: dict[str, Any]


class OutputConfig(Input, frozen=True, kw_only=True):
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
    format: SchemaFormat | None = None


class Metadata(Input, frozen=True, kw_only=True):
    user_id: str | None = None


class CountBody(Input, frozen=True, kw_only=True):
    """What of a message decides its prompt."""

    messages: Annotated[list[UserTurn | AssistantTurn], Meta(min_length=1)]
    model: str | None = None
    system: str | list[TextBlock] | None = None
    tools: Annotated[list[MessageTool], Meta(max_length=512)] | None = None
    tool_choice: AutoTool | AnyTool | OneTool | NoTool | None = None
    thinking: ThinkingEnabled | ThinkingAdaptive | ThinkingDisabled | None = None
    output_config: OutputConfig | None = None
    cache_control: CacheControl | None = None
    # Of Anthropic's, which some clients send as null.
    speed: Unsupported = None
    user_profile_id: Unsupported = None
    workspace_id: Unsupported = None


class MessageBody(CountBody, frozen=True, kw_only=True):
    max_tokens: Tokens
    temperature: Share | None = None
    top_p: Share | None = None
    top_k: TopK | None = None
    stop_sequences: Annotated[list[StopText], Meta(max_length=16)] | None = None
    stream: bool | None = None
    metadata: Metadata | None = None
    service_tier: Literal["auto", "standard_only"] | None = None
    container: Unsupported = None
    diagnostics: Unsupported = None
    inference_geo: Unsupported = None


class WrittenText(Output, frozen=True, kw_only=True, tag_field="type", tag="text"):
    text: str


class WrittenThinking(Output, frozen=True, kw_only=True, tag_field="type", tag="thinking"):
    thinking: str
    signature: str = ""


class WrittenToolUse(Output, frozen=True, kw_only=True, tag_field="type", tag="tool_use"):
    id: str
    name: str
    input: dict[str, Any]


Block = WrittenText | WrittenThinking | WrittenToolUse


class MessageUsage(Output, frozen=True, kw_only=True):
    """input_tokens: those computed; those taken from the prefix cache stand apart."""

    input_tokens: int
    output_tokens: int
    cache_read_input_tokens: int
    cache_creation_input_tokens: int = 0


StopReason = Literal["end_turn", "max_tokens", "stop_sequence", "tool_use"]


class WrittenMessage(Output, frozen=True, kw_only=True):
    id: str
    model: str
    content: list[Block]
    stop_reason: StopReason | None
    stop_sequence: str | None
    usage: MessageUsage
    type: Literal["message"] = "message"
    role: Literal["assistant"] = "assistant"


class MessageDelta(Output, frozen=True, kw_only=True):
    stop_reason: StopReason
    stop_sequence: str | None


class TokenCount(Output, frozen=True, kw_only=True):
    input_tokens: int

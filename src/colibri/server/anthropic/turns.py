"""Anthropic's turns and tools as a chat template takes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

import msgspec

from colibri.server.anthropic.structs import (
    AnyTool,
    AssistantTurn,
    CountBody,
    MessageTool,
    NoTool,
    OneTool,
    TextBlock,
    ThinkingBlock,
    ThinkingDisabled,
    ToolResultBlock,
    ToolUseBlock,
    UserTurn,
)

if TYPE_CHECKING:
    from colibri.text.chat import ChatOptions


def chat_messages(body: CountBody) -> list[Mapping[str, Any]]:
    made: list[Mapping[str, Any]] = []
    if body.system:
        made.append({"role": "system", "content": _text(body.system)})
    for turn in body.messages:
        made += _of_assistant(turn) if isinstance(turn, AssistantTurn) else _of_user(turn)
    return made


def chat_options(body: CountBody) -> ChatOptions:
    options: dict[str, Any] = {}
    if body.tools:
        options["tools"] = [_tool(tool) for tool in body.tools]
    if body.tool_choice is not None:
        options["tool_choice"] = _choice(body.tool_choice)
        if getattr(body.tool_choice, "disable_parallel_tool_use", False):
            options["parallel_tool_calls"] = False
    if body.thinking is not None:
        options["thinking"] = not isinstance(body.thinking, ThinkingDisabled)
    if body.output_config is not None and body.output_config.effort is not None:
        options["reasoning_effort"] = body.output_config.effort
    return cast("ChatOptions", options)


def _choice(choice: Any) -> Any:
    match choice:
        case AnyTool():
            return "required"
        case OneTool():
            return {"type": "function", "function": {"name": choice.name}}
        case NoTool():
            return "none"
        case _:
            return "auto"


def _tool(tool: MessageTool) -> dict[str, Any]:
    function: dict[str, Any] = {"name": tool.name, "parameters": tool.input_schema}
    if tool.description is not None:
        function["description"] = tool.description
    if tool.strict is not None:
        function["strict"] = tool.strict
    return {"type": "function", "function": function}


def _of_user(turn: UserTurn) -> Iterator[dict[str, Any]]:
    """Results of tools are messages of their own, before what the user says beside them."""
    if isinstance(turn.content, str):
        yield {"role": "user", "content": turn.content}
        return
    texts = [block for block in turn.content if isinstance(block, TextBlock)]
    results = [block for block in turn.content if isinstance(block, ToolResultBlock)]
    for result in results:
        text = _text(result.content or "")
        content = f"Error: {text}" if result.is_error else text
        yield {"role": "tool", "tool_call_id": result.tool_use_id, "content": content}
    if texts or not results:
        yield {"role": "user", "content": _text(texts)}


def _of_assistant(turn: AssistantTurn) -> Iterator[dict[str, Any]]:
    blocks = [TextBlock(text=turn.content)] if isinstance(turn.content, str) else turn.content
    message: dict[str, Any] = {"role": "assistant", "content": _text(blocks)}
    thinking = [block.thinking for block in blocks if isinstance(block, ThinkingBlock)]
    if thinking:
        message["reasoning_content"] = "\n".join(thinking)
    calls = [_call(block) for block in blocks if isinstance(block, ToolUseBlock)]
    if calls:
        message["tool_calls"] = calls
    yield message


def _call(block: ToolUseBlock) -> dict[str, Any]:
    arguments = msgspec.json.encode(block.input).decode()
    function = {"name": block.name, "arguments": arguments}
    return {"id": block.id, "type": "function", "function": function}


def _text(content: Any) -> str:
    """Blocks stand on lines of their own."""
    if isinstance(content, str):
        return content
    return "\n".join(block.text for block in content if isinstance(block, TextBlock))

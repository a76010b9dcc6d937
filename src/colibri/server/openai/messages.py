"""OpenAI's messages as a chat template takes them."""

from __future__ import annotations

from typing import Any

from colibri.server.openai.structs.chat import AssistantMessage, Call, Content, Message, ToolMessage


def as_template_takes(message: Message) -> dict[str, Any]:
    made: dict[str, Any] = {
        "role": message.__struct_config__.tag,
        "content": text_of(message.content),
    }
    if message.name is not None:
        made["name"] = message.name
    if isinstance(message, ToolMessage):
        made["tool_call_id"] = message.tool_call_id
    if isinstance(message, AssistantMessage):
        if message.reasoning_content is not None:
            made["reasoning_content"] = message.reasoning_content
        if message.tool_calls:
            made["tool_calls"] = [_call(call, at) for at, call in enumerate(message.tool_calls)]
    return made


def _call(call: Call, at: int) -> dict[str, Any]:
    function = {"name": call.function.name, "arguments": call.function.arguments}
    return {"id": call.id or f"call_{at}", "type": "function", "function": function}


def says_anything(message: AssistantMessage) -> bool:
    said = (message.content, message.reasoning_content, message.tool_calls or None)
    return any(part is not None for part in said)


def text_of(content: Content | None) -> str:
    """Parts stand on lines of their own."""
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(part.text for part in content)

"""Earlier tool calls as a chat template takes them.

Requests have the arguments of a call as JSON text, templates as an object, and some as text. What
an agent gives back may be neither: a call that was cut off. It has to be able to go on, so a
template that takes text gets it as it is, and another the call without arguments, with a note.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from colibri.errors import ConfigError, TokenizerError
from colibri.text.template import ChatTemplate
from colibri.text.tools.schema import parsed

Message = Mapping[str, Any]

_PROBE = '{"city": "'  # is nothing but text, and quoted is another


@dataclass(frozen=True)
class ArgumentForms:
    """In which forms a template takes arguments."""

    objects: bool = True
    text: bool = False

    @classmethod
    def of(cls, template: ChatTemplate) -> "ArgumentForms":
        text = _PROBE in _rendered(template, _PROBE)
        return cls(objects=not text or "Oslo" in _rendered(template, {"city": "Oslo"}), text=text)


class History(tuple[Message, ...]):
    """Messages as a template takes them, prepared once however often they are rendered. notes: what
    of them the model is shown otherwise than it is."""

    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, messages: Sequence[Message], notes: Sequence[str] = ()) -> "History":
        history = cls(messages)
        history.notes = tuple(notes)
        return history

    def without_last(self) -> "History":
        """notes are left out: they are told of the whole."""
        return History(self[:-1])


def _rendered(template: ChatTemplate, arguments: object) -> str:
    function = {"name": "weather", "arguments": arguments}
    call = {"id": "call00000", "type": "function", "function": function}
    messages: list[Message] = [
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call00000", "content": "x"},
    ]
    tool = {"name": "weather", "description": "x", "parameters": {"type": "object"}}
    try:
        return template.render(messages, tools=[{"type": "function", "function": tool}])
    except TokenizerError:
        return ""


def prepared(message: Message, at: int, forms: ArgumentForms) -> tuple[Message, list[str]]:
    """The message, and what of it the model is shown otherwise than it is."""
    calls = message.get("tool_calls")
    if not calls:
        return message, []
    where = f"messages[{at}].tool_calls"
    if not isinstance(calls, Sequence) or isinstance(calls, str):
        raise ConfigError(f"{where} must be a list", where)
    notes: list[str] = []
    made = [_call(call, f"{where}[{i}]", forms, notes) for i, call in enumerate(calls)]
    return {**message, "tool_calls": made}, notes


def _call(call: object, where: str, forms: ArgumentForms, notes: list[str]) -> dict[str, Any]:
    if not isinstance(call, Mapping):
        raise ConfigError(f"{where}: a call is {type(call).__name__}; an object expected", where)
    if isinstance(call.get("function"), Mapping):
        return {**call, "function": _call(call["function"], f"{where}.function", forms, notes)}
    if not isinstance(call.get("name"), str):
        raise ConfigError(f"{where}: a call needs a name", where)
    arguments = call.get("arguments") or {}
    if isinstance(arguments, str):
        value = _object(arguments)
        if value is None and not forms.text:
            notes.append(
                f"{where}.arguments: this is no JSON object, and the model's template takes "
                "nothing else; it is shown the call without arguments"
            )
        text = arguments
    elif isinstance(arguments, Mapping):
        value, text = arguments, json.dumps(arguments, ensure_ascii=False)
    else:
        raise ConfigError(f"{where}: arguments must be an object, or its JSON text", where)
    as_text = forms.text and (value is None or not forms.objects)
    return {**call, "arguments": text if as_text else value or {}}


def _object(text: str) -> Mapping[str, Any] | None:
    try:
        value = parsed(text)
    except ValueError:
        return None
    return value if isinstance(value, Mapping) else None

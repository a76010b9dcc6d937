"""An answer's text, taken apart: reasoning, content, tool calls."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from colibri.text.reasoning import Content, Extent, Reasoning, ReasoningSplitter
from colibri.text.tools.base import Arguments, CallBegin, CallBroken, Event, Text, ToolCalls


@dataclass(frozen=True)
class ToolCallDelta:
    """A piece of a tool call."""

    index: int
    """Which call of the answer it belongs to, from 0."""
    name: str | None = None
    """The name of the tool, in the first piece of a call; otherwise None."""
    arguments: str = ""
    """What the arguments, the text of a JSON object, go on with."""
    end: Literal["complete", "broken"] | None = None
    """In the last piece of a call: "complete", or "broken" if the call is taken back because its
    text is not one. That text then comes as text of the answer."""


@dataclass(frozen=True)
class ToolCall:
    """A complete tool call."""

    name: str
    """The name of the tool."""
    arguments: str
    """The arguments: the text of a JSON object."""

    def parsed(self) -> dict[str, Any]:
        """The arguments as a dict."""
        value: dict[str, Any] = json.loads(self.arguments)
        return value


@dataclass(frozen=True)
class Parts:
    text: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolCallDelta, ...] = ()

    def __add__(self, other: "Parts") -> "Parts":
        return Parts(
            self.text + other.text,
            self.reasoning + other.reasoning,
            self.tool_calls + other.tool_calls,
        )


class AnswerParser:
    """Text in, parts out. `reasoning`, `calls`: None where the model has no such thing."""

    def __init__(self, reasoning: ReasoningSplitter | None, calls: ToolCalls | None) -> None:
        self._reasoning, self._calls = reasoning, calls
        self._index = 0
        self.complete_calls = 0

    @property
    def reasoning(self) -> Extent:
        """Where in the text that was pushed the reasoning stands."""
        return Extent() if self._reasoning is None else self._reasoning.extent

    def push(self, text: str) -> Parts:
        if self._reasoning is None:
            return self._content(text)
        return self._taken(self._reasoning.feed(text))

    def finish(self) -> Parts:
        """What was held back."""
        parts = Parts()
        if self._reasoning is not None:
            parts += self._taken(self._reasoning.finish())
        if self._calls is not None:
            parts += self._read(self._calls.finish())
        return parts

    def _taken(self, pieces: Iterable[Reasoning | Content]) -> Parts:
        parts = Parts()
        for piece in pieces:
            reasons = isinstance(piece, Reasoning)
            parts += Parts(reasoning=piece.text) if reasons else self._content(piece.text)
        return parts

    def _content(self, text: str) -> Parts:
        return Parts(text) if self._calls is None else self._read(self._calls.feed(text))

    def _read(self, events: list[Event]) -> Parts:
        text = "".join(event.text for event in events if isinstance(event, Text))
        return Parts(text, tool_calls=tuple(self._deltas(events)))

    def _deltas(self, events: list[Event]) -> Iterator[ToolCallDelta]:
        for event in events:
            if isinstance(event, CallBegin):
                yield ToolCallDelta(self._index, name=event.name)
            elif isinstance(event, Arguments):
                yield ToolCallDelta(self._index, arguments=event.text)
            elif not isinstance(event, Text):
                broken = isinstance(event, CallBroken)
                self.complete_calls += not broken
                yield ToolCallDelta(self._index, end="broken" if broken else "complete")
                self._index += 1


def whole_calls(deltas: Iterable[ToolCallDelta]) -> tuple[ToolCall, ...]:
    """The calls that were completed, in order."""
    names: dict[int, str] = {}
    arguments: dict[int, list[str]] = {}
    done = []
    for delta in deltas:
        names.setdefault(delta.index, delta.name or "")
        arguments.setdefault(delta.index, []).append(delta.arguments)
        if delta.end == "complete":
            done.append(delta.index)
    return tuple(ToolCall(names[index], "".join(arguments[index])) for index in done)

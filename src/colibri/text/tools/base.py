"""Tool calls in streamed text: what all formats share."""

import re
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass

from colibri.errors import GrammarError
from colibri.text.cursor import Cursor, Reading, Unexpected
from colibri.text.tools.schema import ToolSchemas

OPEN, CLOSE = "<tool_call>", "</tool_call>"
BLANKS = re.compile(r"\s*")
NAME = re.compile(r"[^\s<>{}\"=]*")


@dataclass(frozen=True)
class Text:
    """No call, or one that turned out malformed."""

    text: str


@dataclass(frozen=True)
class CallBegin:
    name: str


@dataclass(frozen=True)
class Arguments:
    """The next piece of the call's arguments; all of them together are one JSON object."""

    text: str


@dataclass(frozen=True)
class CallEnd:
    """The call is complete."""


@dataclass(frozen=True)
class CallBroken:
    """What had begun is no call; its text follows as Text."""


Event = Text | CallBegin | Arguments | CallEnd | CallBroken
Events = Generator[Event | None, None, None]
# Reads from behind <tool_call> to behind </tool_call>; raises Unexpected where that is no call.
Grammar = Callable[[Cursor, ToolSchemas], Events]


class ToolCalls(Reading[Event]):
    """Events of an answer, in order; calls may follow each other.

    Nothing of the answer is lost: a malformed call becomes text, as far as it was read, and reading
    goes on behind it. So no part of a call's own values can become another call. Blanks before a
    call and behind the last one are layout, no text.
    """

    def __init__(self, grammar: Grammar, schemas: ToolSchemas) -> None:
        super().__init__(lambda cursor: _read(cursor, grammar, schemas))


def plain_name(name: str) -> str:
    """The name of a tool where it stands without quotes; GrammarError if it cannot."""
    if not NAME.fullmatch(name):
        raise GrammarError(f"tool {name[:80]!r}: the name cannot be written in this model's calls")
    return name


def name_of(cursor: Cursor) -> Generator[None, None, str]:
    name = yield from cursor.word(NAME)
    if not name:
        raise Unexpected
    return name


def _read(cursor: Cursor, grammar: Grammar, schemas: ToolSchemas) -> Iterator[Event | None]:
    blanks, layout = "", False  # layout: only blanks came since a call
    while True:
        try:
            for piece in cursor.pieces(str, OPEN):
                if piece is None:
                    yield None
                    continue
                shown = (blanks + piece).rstrip()
                blanks = (blanks + piece)[len(shown) :]
                if shown:
                    yield Text(shown)
                    layout = False
        except Unexpected:
            left = blanks + cursor.rest()
            if left.strip() or not layout:
                yield from [Text(left)] if left else []
            return
        layout = yield from _call(cursor, grammar, schemas, blanks)
        blanks = ""


def _call(
    cursor: Cursor, grammar: Grammar, schemas: ToolSchemas, blanks: str
) -> Generator[Event | None, None, bool]:
    """Whether it was one."""
    cursor.mark()
    begun = False
    try:
        for event in grammar(cursor, schemas):
            begun = begun or event is not None
            yield event
    except Unexpected:
        if begun:
            yield CallBroken()
        yield Text(blanks + OPEN + cursor.since_mark())
        return False
    finally:
        cursor.release()
    yield CallEnd()
    return True

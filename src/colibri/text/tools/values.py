"""The arguments of formats that write each one between tags, as one JSON object."""

import re
from collections.abc import Generator

from colibri.text.cursor import Cursor
from colibri.text.tools.base import Arguments, Event
from colibri.text.tools.schema import ToolSchemas, quoted, value_json

_PLAIN = re.compile(r'[^"\\\n]*')
Taken = Generator[None, None, tuple[str, str]]  # a text, and the tag behind it
Ended = Generator[Event | None, None, str]


class ArgumentWriter:
    """`value` for each argument in turn, then `close`."""

    def __init__(self, tool: str, schemas: ToolSchemas) -> None:
        self._tool, self._schemas = tool, schemas
        self._lead = "{"

    def value(self, cursor: Cursor, key: str, *ends: str) -> Ended:
        """Reads the value up to one of the tags: a string as it comes, anything else when it is
        whole. Returns the tag."""
        yield Arguments(f"{self._lead}{quoted(key)}: ")
        self._lead = ", "
        kinds = self._schemas.kinds(self._tool, key)
        if kinds != {"string"}:
            text, end = yield from _text(cursor, kinds, *ends)
            yield Arguments(value_json(text, kinds))
            return end
        yield Arguments('"')
        end = yield from cursor.pieces(_inside_string, *ends)
        yield Arguments('"')
        return end

    def close(self) -> Arguments:
        return Arguments("{}" if self._lead == "{" else "}")


def _text(cursor: Cursor, kinds: frozenset[str], *ends: str) -> Taken:
    """Up to one of the tags. What a string within JSON holds is no tag."""
    parts: list[str] = []
    structured = bool(kinds & {"object", "array"}) and (yield from cursor.stands("{", "["))
    while True:
        text, found = yield from cursor.until(*ends, *(('"',) if structured else ()))
        parts.append(text)
        if found in ends:
            return "".join(parts), found
        parts.append(found + (yield from _string(cursor)))


def _string(cursor: Cursor) -> Generator[None, None, str]:
    """From behind a quote to behind the one that ends the string, which a line's end does too: no
    JSON string holds one."""
    parts = []
    while True:
        parts.append((yield from cursor.word(_PLAIN)))
        parts.append((yield from cursor.take()))
        if parts[-1] in ('"', "\n"):
            return "".join(parts)
        parts.append((yield from cursor.take()))


def _inside_string(text: str) -> Arguments:
    return Arguments(quoted(text)[1:-1])

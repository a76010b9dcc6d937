"""The arguments of formats that write each one between tags, as one JSON object."""

from collections.abc import Generator

from colibri.text.cursor import Cursor
from colibri.text.tools.base import Arguments, Event
from colibri.text.tools.schema import ToolSchemas, quoted, value_json

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
            text, end = yield from cursor.until(*ends)
            yield Arguments(value_json(text, kinds))
            return end
        yield Arguments('"')
        end = yield from cursor.pieces(_inside_string, *ends)
        yield Arguments('"')
        return end

    def close(self) -> Arguments:
        return Arguments("{}" if self._lead == "{" else "}")


def _inside_string(text: str) -> Arguments:
    return Arguments(quoted(text)[1:-1])

"""Qwen2.5 and Qwen3, Hermes: <tool_call>{"name": ..., "arguments": {...}}</tool_call>"""

import json
import re
from collections.abc import Generator

from colibri.text.cursor import Cursor, Unexpected
from colibri.text.tools.base import BLANKS, CLOSE, Arguments, CallBegin, Event, Events
from colibri.text.tools.rules import Rules, Tool, text_of
from colibri.text.tools.schema import ToolSchemas, parsed

_PLAIN = re.compile(r'[^"\\]*')
_OUTSIDE = re.compile(r'[^"{}]*')


def hermes_call(cursor: Cursor, schemas: ToolSchemas) -> Events:
    """The arguments stream when the name comes before them, which the templates teach. They are
    JSON already, so the schemas say nothing new."""
    name, begun, arguments = "", False, ""
    yield from _skip_to(cursor, "{")
    separator = ","
    while separator == ",":
        key = yield from _key(cursor)
        if key == "name" and not name:
            name = yield from _name(cursor)
        elif key == "arguments" and not arguments:
            if name:
                begun = True
                yield CallBegin(name)
            arguments = yield from _arguments(cursor, shown=begun)
        else:
            raise Unexpected
        separator = yield from _skip_to(cursor, ",", "}")
    if not name:
        raise Unexpected
    if not begun:
        yield CallBegin(name)
        yield Arguments(arguments or "{}")
    yield from _skip_to(cursor, CLOSE)


def _skip_to(cursor: Cursor, *tags: str) -> Generator[None, None, str]:
    yield from cursor.word(BLANKS)
    return (yield from cursor.expect(*tags))


def _key(cursor: Cursor) -> Generator[None, None, str]:
    yield from cursor.word(BLANKS)
    key = yield from _string(cursor)
    yield from _skip_to(cursor, ":")
    yield from cursor.word(BLANKS)
    return key


def _name(cursor: Cursor) -> Generator[None, None, str]:
    name = yield from _string(cursor)
    if not name:
        raise Unexpected
    return name


def _string(cursor: Cursor) -> Generator[None, None, str]:
    """A JSON string, decoded."""
    yield from cursor.expect('"')
    return str(_value('"' + (yield from _quoted(cursor))))


def _quoted(cursor: Cursor) -> Generator[None, None, str]:
    """From behind a quote to behind the one that ends the string."""
    parts = []
    while True:
        parts.append((yield from cursor.word(_PLAIN)))
        mark = yield from cursor.expect('"', "\\")
        parts.append(mark)
        if mark == '"':
            return "".join(parts)
        parts.append((yield from cursor.take()))


def _value(text: str) -> object:
    try:
        return parsed(text)
    except ValueError:
        raise Unexpected from None


def _arguments(cursor: Cursor, *, shown: bool) -> Generator[Event | None, None, str]:
    """A JSON object, piece by piece if `shown`; or one within a string, as some models write."""
    first = yield from cursor.expect("{", '"')
    if first == '"':
        text = str(_value(first + (yield from _quoted(cursor))))
        _check_object(text)
        if shown:
            yield Arguments(text)
        return text
    text = yield from _object(cursor, shown=shown)
    _check_object(text)
    return text


def _check_object(text: str) -> None:
    if not isinstance(_value(text), dict):
        raise Unexpected


def _object(cursor: Cursor, *, shown: bool) -> Generator[Event | None, None, str]:
    """From behind the first brace to behind the last; whether it is JSON is told at its end."""
    parts, depth, piece = [], 1, "{"
    while True:
        parts.append(piece)
        if shown and piece:
            yield Arguments(piece)
        if not depth:
            return "".join(parts)
        piece = yield from cursor.word(_OUTSIDE)
        mark = yield from cursor.expect('"', "{", "}")
        depth += {"{": 1, "}": -1}.get(mark, 0)
        piece += mark
        if mark == '"':
            piece += yield from _quoted(cursor)


def hermes_rules(rules: Rules, tool: Tool) -> str:
    """From behind <tool_call> to the end: the name first, so that the arguments stream."""
    begin = f'{{"name": {json.dumps(tool.name, ensure_ascii=False)}, "arguments": '
    schema = {"type": "object"} if tool.free else tool.parameters
    value = rules.json(schema)
    return f'"\\n"? {text_of(begin)} {value} "}}" "\\n"? {rules.mark(CLOSE)}'

"""Qwen3-Coder and Qwen3.5 on: <tool_call><function=name><parameter=k>v</parameter></function>..."""

from colibri.text.cursor import Cursor
from colibri.text.tools.base import BLANKS, CLOSE, CallBegin, Events, name_of
from colibri.text.tools.schema import ToolSchemas
from colibri.text.tools.values import ArgumentWriter

_PARAMETER, _END = "<parameter=", "</parameter>"


def qwen_xml_call(cursor: Cursor, schemas: ToolSchemas) -> Events:
    """One line break at each end of a value belongs to the tags."""
    yield from cursor.word(BLANKS)
    yield from cursor.expect("<function=")
    name = yield from name_of(cursor)
    yield from cursor.expect(">")
    yield from cursor.word(BLANKS)
    tag = yield from cursor.expect(_PARAMETER, "</function>")
    yield CallBegin(name)
    arguments = ArgumentWriter(name, schemas)
    while tag == _PARAMETER:
        key = yield from name_of(cursor)
        yield from cursor.expect(">")
        yield from cursor.optional("\n")
        yield from arguments.value(cursor, key, "\n" + _END, _END)
        yield from cursor.word(BLANKS)
        tag = yield from cursor.expect(_PARAMETER, "</function>")
    yield arguments.close()
    yield from cursor.word(BLANKS)
    yield from cursor.expect(CLOSE)

"""Qwen3-Coder and Qwen3.5 on: <tool_call><function=name><parameter=k>v</parameter></function>..."""

from colibri.text.cursor import Cursor
from colibri.text.tools.arguments import arguments
from colibri.text.tools.base import BLANKS, CLOSE, CallBegin, Events, name_of, plain_name
from colibri.text.tools.rules import Rules, Tool, text_of
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


def qwen_xml_rules(rules: Rules, tool: Tool) -> str:
    """From behind <tool_call> to the end, with the line breaks that the templates teach."""

    def argument(name: str, ended: str) -> str:
        return f'{text_of(_PARAMETER)} {name} ">\\n" {ended} "\\n"'

    parts = arguments(rules, tool, "\n" + _END, _END, argument)
    begin = text_of(f"\n<function={plain_name(tool.name)}>\n")
    end = text_of("</function>\n")
    return f"{begin} {parts} {end} {rules.mark(CLOSE)}"

"""GLM-4.5 to 5.3: <tool_call>name<arg_key>k</arg_key><arg_value>v</arg_value>...</tool_call>"""

from colibri.text.cursor import Cursor
from colibri.text.tools.arguments import arguments
from colibri.text.tools.base import BLANKS, CLOSE, CallBegin, Events, name_of, plain_name
from colibri.text.tools.rules import Rules, Tool, text_of
from colibri.text.tools.schema import ToolSchemas
from colibri.text.tools.values import ArgumentWriter


def glm_call(cursor: Cursor, schemas: ToolSchemas) -> Events:
    """Blanks between the tags, which some models of the series write, mean nothing."""
    yield from cursor.word(BLANKS)
    name = yield from name_of(cursor)
    yield from cursor.word(BLANKS)
    tag = yield from cursor.expect("<arg_key>", CLOSE)
    yield CallBegin(name)
    arguments = ArgumentWriter(name, schemas)
    while tag != CLOSE:
        key, _ = yield from cursor.until("</arg_key>")
        yield from cursor.word(BLANKS)
        yield from cursor.expect("<arg_value>")
        yield from arguments.value(cursor, key.strip(), "</arg_value>")
        yield from cursor.word(BLANKS)
        tag = yield from cursor.expect("<arg_key>", CLOSE)
    yield arguments.close()


def glm_rules(rules: Rules, tool: Tool) -> str:
    """From behind <tool_call> to the end; line breaks between the tags as older models write."""
    key, key_end, value = (rules.mark(t) for t in ("<arg_key>", "</arg_key>", "<arg_value>"))
    end = "</arg_value>"

    def argument(name: str, ended: str) -> str:
        return f'{key} {name} {key_end} "\\n"? {value} {ended} "\\n"?'

    parts = arguments(rules, tool, end, end, argument)
    return f'{text_of(plain_name(tool.name))} "\\n"? {parts} {rules.mark(CLOSE)}'

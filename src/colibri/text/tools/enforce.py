"""Tool calls as the grammar of a model's own form: which tools, with which arguments."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from colibri.errors import GrammarError
from colibri.grammar.answers import CallRules
from colibri.grammar.compiler import check_patterns
from colibri.grammar.schema import check_schema
from colibri.grammar.structure import Structure
from colibri.text.tools.base import OPEN
from colibri.text.tools.rules import Rules, TokenId, Tool

WriteRules = Callable[[Rules, Tool], str]  # a call, from behind its opening mark to its end


def call_rules(
    write: WriteRules,
    tools: Sequence[Mapping[str, Any]],
    token_id: TokenId,
    *,
    must: bool,
    several: bool,
) -> tuple[CallRules, list[str]]:
    """The rules, and notes on tools whose arguments are not held to their schema. Where a call must
    come, or the tool is strict, such a schema is a GrammarError instead."""
    rules, notes = Rules(token_id), list[str]()
    bodies = [_call(write, rules, tool["function"], must, notes) for tool in tools]
    call = rules.rule(" | ".join(f"({body})" for body in bodies))
    one = f"{rules.mark(OPEN)} {call}"
    return CallRules(
        opening=OPEN,
        call=Structure("tools", rules.source(call)),
        calls=Structure("tools", rules.source(f'{one} ("\\n"? {one})*' if several else one)),
        must=must,
        several=several,
    ), notes


def _call(
    write: WriteRules, rules: Rules, function: Mapping[str, Any], must: bool, notes: list[str]
) -> str:
    name, before = function["name"], len(rules.lines)
    try:
        return write(rules, Tool(name, _parameters(function)))
    except GrammarError as error:
        if must or function.get("strict"):
            raise GrammarError(_named(name, str(error))) from None
        notes.append(f"{_named(name, str(error))}; its arguments are not held to their schema")
    del rules.lines[before:]
    return write(rules, Tool(name, {}, free=True))


def _named(name: str, message: str) -> str:
    return message if message.startswith("tool ") else f"tool {name[:80]}: {message}"


def _parameters(function: Mapping[str, Any]) -> dict[str, Any]:
    """A schema of an object, which without a word on others has the named arguments only."""
    schema = dict(function.get("parameters") or {})
    if schema.setdefault("type", "object") != "object":
        raise GrammarError("json_schema: 'type': arguments are an object")
    if schema.get("properties") or not function.get("parameters"):
        schema.setdefault("additionalProperties", False)
    check_schema(schema)
    check_patterns(schema)
    return schema

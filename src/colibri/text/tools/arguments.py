"""Arguments that a model writes one by one between tags: which there are, and what fits each."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NoReturn

from colibri.errors import GrammarError
from colibri.grammar.keywords import ANNOTATIONS
from colibri.text.tools.branches import branches
from colibri.text.tools.rules import ANYTHING, Rules, Tool, text_of
from colibri.text.tools.schema import kinds_of, quoted, value_json
from colibri.text.tools.strings import string_terminal

_TOP = ANNOTATIONS | {"type", "properties", "required", "additionalProperties"}
_DEFINITIONS = ("$defs", "definitions")
_ELSEWHERE = re.compile(r'"\$ref": "(?!#/(?:\$defs|definitions)/)')
# What the reader takes for a value of another kind, where the schema has one of that kind.
_LOOKS = {
    "object": r"\s*\{(?s:.*)",
    "array": r"\s*\[(?s:.*)",
    "integer": r"\s*-?[0-9](?s:.*)",
    "number": r"\s*-?[0-9](?s:.*)",
}

Argument = Callable[[str, str], str]  # (key, rule of the value and its end) -> body


def arguments(rules: Rules, tool: Tool, end: str, close: str, argument: Argument) -> str:
    """All arguments of a call, in the order of the schema. GrammarError where a schema says what
    cannot be enforced in this form."""
    free = rules.raw(ANYTHING, end, close)
    any_key = rules.terminal(r"/[A-Za-z_][A-Za-z0-9_.-]*/")
    if tool.free:
        return f"({argument(any_key, free)})*"
    schema = tool.parameters
    properties = _properties(tool.name, schema)
    if not properties:
        more = schema.get("additionalProperties", False)
        if isinstance(more, Mapping) and not more.keys() <= ANNOTATIONS:
            _refuse(tool.name, "additionalProperties: only named arguments can have a schema")
        return "" if more is False else f"({argument(any_key, free)})*"
    required = schema.get("required", ())
    parts = []
    for key, member in properties.items():
        value = _value(rules, tool, key, member, free, (end, close))
        rule = rules.rule(argument(text_of(key), value))
        parts.append(rule if key in required else f"{rule}?")
    return " ".join(parts)


def _properties(name: str, schema: Mapping[str, Any]) -> Mapping[str, Any]:
    for keyword in schema.keys() - _TOP - set(_DEFINITIONS):
        _refuse(name, f"{keyword!r} is not supported for arguments in this model's form of calls")
    if _ELSEWHERE.search(json.dumps(schema)):
        _refuse(name, "a '$ref' must point into $defs or definitions")
    properties: Mapping[str, Any] = schema.get("properties", {})
    for key in schema.get("required", ()):
        if key not in properties:
            _refuse(name, f"'required' names {key!r}, which properties lacks")
    for key in properties:
        if not re.fullmatch(r"[^\s<>{}\"=]+", key):
            _refuse(name, f"the argument {key!r} cannot be written in this model's form of calls")
    return properties


def _value(
    rules: Rules, tool: Tool, key: str, schema: Any, free: str, ends: tuple[str, str]
) -> str:
    """The rule of a value and its end, which reads back as a value that fits."""
    root, kinds = tool.parameters, kinds_of(schema, tool.parameters)
    if schema is True or (isinstance(schema, Mapping) and schema.keys() <= ANNOTATIONS):
        return free
    if kinds and "string" not in kinds:
        return rules.rule(f"{rules.json(_with_definitions(schema, root))} {rules.mark(ends[0])}")
    return rules.rule(" | ".join(_alternatives(rules, f"{tool.name}.{key}", schema, root, ends)))


def _alternatives(
    rules: Rules, where: str, schema: Any, root: Mapping[str, Any], ends: tuple[str, str]
) -> Iterator[str]:
    kinds, others = kinds_of(schema, root), []
    found = branches(schema, root)
    looks = [_LOOKS[kind] for b in found if (kind := b.get("type")) in _LOOKS and _says_more(b)]
    for branch in found:
        if branch.get("type") != "string":
            others.append(branch)
            continue
        _check_options(where, branch, kinds)
        terminal = string_terminal(branch, where)
        for look in sorted(set(looks)) if "enum" not in branch else ():
            terminal = f"({terminal}) & ~/{look}/"
        yield rules.raw(terminal, *ends)
    if any("type" not in branch for branch in others):
        _refuse(where, "without a 'type' nothing can be enforced; give it one, or no constraint")
    if others:
        value = rules.json(_with_definitions({"anyOf": others}, root))
        yield f"{value} {rules.mark(ends[0])}"


def _says_more(branch: Mapping[str, Any]) -> bool:
    return branch["type"] in ("object", "array") or not branch.keys() <= ANNOTATIONS | {"type"}


def _check_options(where: str, branch: Mapping[str, Any], kinds: frozenset[str]) -> None:
    for option in branch.get("enum", ()):
        if value_json(option, kinds) != quoted(option):
            _refuse(where, f"{option!r} reads as another type in this model's form of calls")


def _with_definitions(schema: Mapping[str, Any], root: Mapping[str, Any]) -> dict[str, Any]:
    return {**schema, **{key: root[key] for key in _DEFINITIONS if key in root}}


def _refuse(where: str, why: str) -> NoReturn:
    raise GrammarError(f"tool {where[:80]}: {why}")

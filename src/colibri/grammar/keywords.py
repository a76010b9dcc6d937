"""The keywords of JSON schemas: those that are enforced, those that say nothing of validity, and
everything else refused by name.

The compiler ignores keywords that it does not know, and so would a model's answer.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn
from urllib.parse import unquote

from colibri.errors import GrammarError
from colibri.grammar.bounds import beyond
from colibri.grammar.regex import check_repeats

_SCHEMA_MAPS = ("properties", "patternProperties", "$defs", "definitions")
_SCHEMA_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_SCHEMAS = ("items", "additionalProperties")
_COUNTS = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")
_NUMBERS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_PLAIN = ("$ref", "const", "enum", "type", "required", "pattern", "format", *_COUNTS, *_NUMBERS)
ANNOTATIONS = frozenset(
    [
        "$schema",
        "$id",
        "$comment",
        "title",
        "description",
        "default",
        "examples",
        "example",
        "readOnly",
        "writeOnly",
        "deprecated",
        "contentMediaType",
        "contentEncoding",
        "discriminator",
    ]
)
_ENFORCED = frozenset((*_SCHEMA_MAPS, *_SCHEMA_LISTS, *_SCHEMAS, *_PLAIN))
FORMATS = frozenset(
    ("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid", "uri")
)
_TYPES = frozenset(("null", "boolean", "integer", "number", "string", "array", "object"))
_DRAFTS = ("2020-12", "2019-09", "draft-07", "draft-06")
MOST_OPTIONAL = 400  # at one place: what the compiler follows at once
_CONTROL = re.compile(r"\\u00(?:[01][0-9a-f]|7f)|\x7f")
_INSTEAD = {
    "nullable": 'add "null" to type',
    "dependencies": "spell the cases out with anyOf",
    "additionalItems": "use items",
    "$anchor": "use $defs and #/$defs/NAME",
    "x-guidance": "how it is compiled is not for a schema to say",
}


def resolve(root: object, ref: str, at: str = "") -> Any:
    """What a $ref of this schema points at."""
    if not ref.startswith("#") or (ref != "#" and not ref.startswith("#/")):
        refuse("$ref", at, f"{ref[:80]!r} is not within this schema; nothing is fetched")
    node: Any = root
    for part in ref[2:].split("/") if len(ref) > 1 else ():
        key = unquote(part).replace("~1", "/").replace("~0", "~")
        if isinstance(node, list) and key.isdigit() and int(key) < len(node):
            node = node[int(key)]
        elif isinstance(node, Mapping) and key in node:
            node = node[key]
        else:
            refuse("$ref", at, f"{ref[:80]!r} points at nothing")
    return node


def subschemas(schema: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """(pointer from here, schema) of all schemas one level below."""
    for key in _SCHEMA_MAPS:
        if isinstance(group := schema.get(key), Mapping):
            for name, member in group.items():
                yield f"/{key}/{name.replace('~', '~0').replace('/', '~1')}", member
    for key in _SCHEMA_LISTS:
        if isinstance(group := schema.get(key), list):
            for index, member in enumerate(group):
                yield f"/{key}/{index}", member
    for key in _SCHEMAS:
        if key in schema:
            yield f"/{key}", schema[key]


def check_keywords(schema: Mapping[str, Any], at: str, root: object, known: set[int]) -> None:
    """`known`: ids of all schemas of the document, to one of which a $ref must point."""
    for keyword, value in schema.items():
        if keyword not in _ENFORCED and keyword not in ANNOTATIONS:
            instead = _INSTEAD.get(keyword, "leave it out, or check the answer yourself")
            refuse(keyword, at, f"not supported; {instead}")
        if (problem := _problem(keyword, value, schema, at)) is not None:
            refuse(keyword, at, problem)
    if "pattern" in schema:
        check_repeats(schema["pattern"], f"json_schema: 'pattern' at {at[:120] or 'the top'}")
    if "$ref" in schema and id(resolve(root, schema["$ref"], at)) not in known:
        refuse("$ref", at, f"{schema['$ref'][:80]!r} is no schema of this document")


def _problem(keyword: str, value: Any, schema: Mapping[str, Any], at: str) -> str | None:
    """What is wrong with a keyword's value, beyond what the compiler itself refuses."""
    match keyword:
        case "type" if not types_of(value):
            return f"{value!r} is no type, nor a list of types"
        case "properties" if _count_of(value) - _count_of(schema.get("required")) > MOST_OPTIONAL:
            return f"more than {MOST_OPTIONAL} of them that are not required"
        case "properties" | "patternProperties" | "$defs" | "definitions":
            return None if isinstance(value, Mapping) else "an object of schemas expected"
        case "anyOf" | "oneOf" | "allOf" | "prefixItems":
            return None if isinstance(value, list) and value else "a list of schemas expected"
        case "required" | "enum" if not isinstance(value, list):
            return "a list expected"
        case "required" if not all(isinstance(name, str) for name in value):
            return "a list of names expected"
        case "const" | "enum" if _CONTROL.search(json.dumps(value)):
            return "control characters other than \\n \\r \\t \\b \\f are never written"
        case "$ref" | "pattern" if not isinstance(value, str):
            return "text expected"
        case "format" if value not in FORMATS:
            return f"{value!r} is none of {', '.join(sorted(FORMATS))}"
        case "format" if "string" not in (types_of(schema.get("type", "string")) or ()):
            return "it is enforced for strings only"
        case "$schema" if not any(draft in str(value) for draft in _DRAFTS):
            return f"{value!r} is none of the drafts {', '.join(_DRAFTS)}"
        case "$id" if at:
            return "only at the top"
        case "minProperties" if _count(value) and value > max(1, _count_of(schema.get("required"))):
            return "above 1 it is enforced only through required: keys of a map may repeat"
    if keyword in _COUNTS and not _count(value):
        return f"{value!r}; a whole number, not below 0, expected"
    if keyword in _NUMBERS and (not isinstance(value, int | float) or isinstance(value, bool)):
        return f"{value!r}; a number expected"
    if beyond(keyword, value):
        return "so far from zero (9e17) bounds are not followed"
    return None


def _count_of(group: object) -> int:
    return len(group) if isinstance(group, Mapping | list) else 0


def types_of(value: Any) -> tuple[str, ...] | None:
    names: list[Any] = value if isinstance(value, list) else [value]
    good = names and all(isinstance(name, str) and name in _TYPES for name in names)
    return tuple(names) if good else None


def _count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def refuse(keyword: str, at: str, why: str) -> NoReturn:
    raise GrammarError(f"json_schema: {keyword[:80]!r} at {at[:120] or 'the top'}: {why}")

"""A schema as alternatives of one type each: references followed, unions and type lists spread."""

from collections.abc import Iterator, Mapping
from typing import Any

from colibri.errors import GrammarError
from colibri.grammar.keywords import ANNOTATIONS, resolve

_KINDS = {str: "string", bool: "boolean", int: "integer", float: "number", list: "array"}
_DEEPEST, _MOST = 32, 256  # references in a row, ways to meet a union
Branch = dict[str, Any]


def kind_of(value: object) -> str:
    """The JSON type of a value."""
    return "null" if value is None else _KINDS.get(type(value), "object")


def branches(schema: object, root: object, *, strict: bool = True) -> list[Branch]:
    """Each with a `type` that is one name, where the schema says any. strict: GrammarError for what
    cannot be spread; otherwise that part is left out."""
    return list(_spread(schema, root, strict, 0))


def _spread(schema: object, root: object, strict: bool, depth: int) -> Iterator[Branch]:
    if not isinstance(schema, Mapping) or depth > _DEEPEST:
        yield {}
        return
    own = {k: v for k, v in schema.items() if k not in ANNOTATIONS}
    parts = list(_joined(own, root, strict, depth))
    for branch in parts or [[{}]]:
        merged = _merged([own, *branch], strict)
        yield from _typed(merged)


def _joined(own: Branch, root: object, strict: bool, depth: int) -> Iterator[list[Branch]]:
    """Takes $ref, allOf, anyOf and oneOf out of a schema: every way to meet them."""
    ways: list[list[Branch]] = [[]]
    members = [[_target(own.pop("$ref"), root, strict)]] if "$ref" in own else []
    members += [[member] for member in _list(own.pop("allOf", ()))]
    members += [list(_list(own.pop(key))) for key in ("anyOf", "oneOf") if key in own]
    for choices in members:
        spread = [b for c in choices for b in _spread(c, root, strict, depth + 1)]
        ways = [[*way, branch] for way in ways for branch in spread][:_MOST]
    yield from ways


def _target(ref: object, root: object, strict: bool) -> object:
    try:
        return resolve(root, str(ref))
    except GrammarError:
        if strict:
            raise
        return {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _merged(parts: list[Branch], strict: bool) -> Branch:
    merged: Branch = {}
    for part in parts:
        for key, value in part.items():
            if strict and key in merged and merged[key] != value:
                raise GrammarError(f"tools: {key!r} is said twice for one argument")
            merged[key] = value
    return merged


def _typed(schema: Branch) -> Iterator[Branch]:
    if "const" in schema:
        schema = {**schema, "enum": [schema["const"]]}
        del schema["const"]
    kinds = schema.get("type")
    if kinds is None and "enum" in schema:
        kinds = sorted({kind_of(value) for value in _list(schema["enum"])})
    if kinds is None:
        yield schema
    for kind in kinds if isinstance(kinds, list) else [kinds] if kinds else []:
        branch = {**schema, "type": str(kind)}
        if "enum" in schema:
            fitting = {kind, "integer"} if kind == "number" else {kind}
            branch["enum"] = [v for v in _list(schema["enum"]) if kind_of(v) in fitting]
        if branch.get("enum", True):
            yield branch

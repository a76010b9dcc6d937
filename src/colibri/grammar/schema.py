"""JSON schemas, checked before they are compiled: form, depth, keywords, references."""

import json
import math
from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any, NoReturn, TypeVar

from colibri.errors import GrammarError
from colibri.grammar.bounds import narrow_bounds
from colibri.grammar.chains import check_chains, has_finite_value
from colibri.grammar.formats import narrow_formats
from colibri.grammar.keywords import check_keywords, subschemas

Schema = Mapping[str, Any] | bool
AnySchema = TypeVar("AnySchema", bound=Schema)

DEEPEST = 64


def read_schema(text: str) -> Schema:
    """The schema of a text, checked; GrammarError names the keyword and where it stands."""
    try:
        schema = json.loads(text, parse_constant=_no_constant, parse_float=_finite)
    except RecursionError:
        raise GrammarError(f"json_schema: nested deeper than {DEEPEST}") from None
    except ValueError as error:
        raise GrammarError(f"json_schema: not JSON: {error}") from None
    check_schema(schema)
    checked: Schema = narrowed(schema)
    return checked


def narrowed(schema: AnySchema) -> AnySchema:
    """A checked schema as it is compiled: see formats.py and bounds.py. A copy."""
    copy = deepcopy(schema)
    nodes = [node for _, node in _walk(copy, "", 0)]
    narrow_bounds(nodes)
    narrow_formats(nodes)
    return copy


def check_schema(schema: object) -> None:
    """Also bounds what compiling may take."""
    nodes = dict(_walk(schema, "", 0))
    known = {id(node) for node in nodes.values()}
    for at, node in nodes.items():
        if isinstance(node, Mapping):
            check_keywords(node, at, schema, known)
    check_chains(schema, nodes)
    if not has_finite_value(schema, nodes):
        raise GrammarError(
            "json_schema: no finite value fits it: it is false, or a required part contains itself"
        )


def patterns(schema: object) -> Iterator[tuple[str, str, str]]:
    """(keyword, place, regex) of all that a checked schema has."""
    for at, node in _walk(schema, "", 0):
        if isinstance(node, Mapping):
            if "pattern" in node:
                yield "pattern", at, node["pattern"]
            for name in node.get("patternProperties", ()):
                yield "patternProperties", at, name


def _walk(schema: object, at: str, depth: int) -> Iterator[tuple[str, Schema]]:
    if depth > DEEPEST:
        raise GrammarError(f"json_schema: nested deeper than {DEEPEST} at {at[:80]}...")
    if isinstance(schema, bool):
        yield at, schema
        return
    if not isinstance(schema, Mapping):
        raise GrammarError(
            f"json_schema: {at or 'the whole'} is {type(schema).__name__}; a schema is an object, "
            "true or false"
        )
    yield at, schema
    for step, member in subschemas(schema):
        yield from _walk(member, at + step, depth + 1)


def _finite(text: str) -> float:
    if math.isinf(value := float(text)):
        raise ValueError(f"the number {text[:20]} is beyond every float")
    return value


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")

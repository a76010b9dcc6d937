"""Schemas: what is not enforced is refused by name and place, within bounded time."""

import json
from typing import Any

import pytest
from grammar_kit import fits, grammars

from colibri.errors import GrammarError
from colibri.grammar.schema import read_schema
from colibri.grammar.structure import Structure

STRING = {"type": "string"}


def refused(schema: Any) -> str:
    text = schema if isinstance(schema, str) else json.dumps(schema)
    with pytest.raises(GrammarError) as caught:
        grammars().compiled(Structure.json_schema(text))
    return str(caught.value)


@pytest.mark.parametrize(
    "keyword",
    [
        *("not", "if", "then", "else", "uniqueItems", "contains", "minContains", "maxContains"),
        *("dependentRequired", "dependentSchemas", "dependencies", "propertyNames", "$anchor"),
        *("unevaluatedProperties", "unevaluatedItems", "additionalItems", "contentSchema"),
        *(
            "$dynamicRef",
            "$recursiveRef",
            "$vocabulary",
            "nullable",
            "x-guidance",
            "minlength",
            "foo",
        ),
    ],
)
def test_a_keyword_that_is_not_enforced_is_named_with_its_place(keyword: str) -> None:
    words = refused({"type": "object", "properties": {"a b": {"type": "string", keyword: {}}}})
    assert f"{keyword!r} at /properties/a b" in words


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ("{", "not JSON"),
        ("NaN", "not JSON"),
        ('{"maximum": -1e400}', "the number -1e400 is beyond every float"),
        ("[]", "the whole is list"),
        ({"properties": {"a": 5}}, "/properties/a is int"),
        ({"properties": []}, "'properties' at the top: an object of schemas"),
        ({"anyOf": []}, "'anyOf' at the top: a list"),
        ({"type": "any"}, "'type' at the top: 'any'"),
        ({"type": ["string", 3]}, "'type'"),
        ({"enum": []}, "Unsatisfiable"),
        ({"enum": ["a", "\x01"]}, "'enum' at the top: control characters"),
        ({"const": {"a": ["\x7f"]}}, "'const' at the top: control characters"),
        ({"enum": "a"}, "'enum' at the top: a list"),
        ({"required": [1]}, "'required' at the top: a list of names"),
        ({"required": 1, "minProperties": 3}, "'required'"),
        ({"type": "string", "format": "isbn"}, "'format' at the top: 'isbn'"),
        ({"type": "integer", "format": "uri"}, "'format' at the top: it is enforced for strings"),
        ({"type": "string", "minLength": "3"}, "'minLength' at the top: '3'"),
        ({"type": "string", "minLength": -1}, "'minLength'"),
        ({"type": "string", "minLength": 4, "maxLength": 2}, "minLength"),
        ({"type": "integer", "minimum": 3, "exclusiveMinimum": True}, "'exclusiveMinimum'"),
        ({"type": "array", "items": [STRING]}, "/items is list"),
        ({"type": "object", "minProperties": 2}, "'minProperties' at the top: above 1"),
        ({"type": "string", "pattern": "(?=a)b"}, "look-ahead"),
        ({"type": "string", "pattern": "(a"}, "'pattern' at the top: .*unclosed group"),
        (
            {"properties": {"good": {"pattern": "a"}, "b": {"pattern": "[z-a]"}}},
            "'pattern' at /properties/b: ",
        ),
        (
            {"type": "object", "patternProperties": {"(": True}},
            "'patternProperties' at the top: .*unclosed group",
        ),
        ({"$defs": {"x": {"pattern": "*"}}, "$ref": "#/$defs/x"}, "'pattern' at /.defs/x"),
        ({"type": "string", "pattern": 5}, "'pattern' at the top: text expected"),
        ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, "'oneOf'.*use anyOf"),
        ({"$schema": "http://json-schema.org/draft-04/schema#"}, "none of the drafts"),
        ({"items": {"$id": "http://a.b/c"}}, "'.id' at /items: only at the top"),
        ({"$ref": "http://127.0.0.1/x"}, "not within this schema; nothing is fetched"),
        ({"$ref": "#/$defs/a"}, "points at nothing"),
        ({"$ref": "#/default", "default": {"not": {}}}, "is no schema of this document"),
        (False, "no finite value"),
    ],
)
def test_what_is_wrong_is_said(schema: Any, words: str) -> None:
    import re

    assert re.search(words, refused(schema))


DEFS = {"a": {"$ref": "#/$defs/b"}, "b": {"anyOf": [STRING, {"$ref": "#/$defs/a"}]}}


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"allOf": [{"$ref": "#"}]},
        {"$ref": "#/$defs/a", "$defs": DEFS},
        {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]},
        {"type": "array", "items": {"$ref": "#"}, "minItems": 1},
    ],
)
def test_a_schema_without_an_end_is_refused(schema: Any) -> None:
    assert "itself" in refused(schema)


def test_a_schema_may_contain_itself_where_it_can_end() -> None:
    node = {"$ref": "#/$defs/node"}
    tree = {
        "type": "object",
        "properties": {"left": {"anyOf": [node, {"type": "null"}]}, "more": {"items": node}},
        "required": ["left"],
    }
    grammars().compiled(Structure.json_schema({"$defs": {"node": tree}, **node}))


def deep(levels: int) -> str:
    return '{"type":"array","items":' * levels + '{"type":"null"}' + "}" * levels


@pytest.mark.parametrize("levels", [100, 1_000, 9_000])
def test_depth_is_bounded(levels: int) -> None:
    assert "nested deeper than 64" in refused(deep(levels))


def test_size_is_bounded() -> None:
    many = {f"property{i}": {"type": "string", "pattern": f"^a{i}$"} for i in range(20_000)}
    assert "at most 262144" in refused({"properties": many})


def test_many_alternatives_are_refused_and_not_followed_for_long() -> None:
    ways = [{"anyOf": [{"properties": {f"p{i}{j}": STRING}} for j in range(4)]} for i in range(12)]
    assert "too large" in refused({"allOf": ways})
    optional = {"type": "object", "properties": {f"p{i}": STRING for i in range(4_000)}}
    assert "'properties' at the top: more than 400" in refused(optional)


@pytest.mark.parametrize("pattern", ["((a{300}){300}){300}", "(([a-z]+){500,}b){500}"])
def test_nested_repetitions_are_refused(pattern: str) -> None:
    assert "repetitions within repetitions" in refused({"type": "string", "pattern": pattern})


def test_regexes_that_must_all_hold_are_counted_through_references() -> None:
    """Their intersection takes time exponential in their number: 20 of these take hours."""
    patterns = [{"type": "string", "pattern": f".*a.{{{i}}}b.*"} for i in range(20)]
    assert "'pattern' at the top: more than 4" in refused({"allOf": patterns})
    chain = {f"s{i}": {**p, "$ref": f"#/$defs/s{i + 1}"} for i, p in enumerate(patterns)}
    assert "more than 4" in refused({"$defs": {**chain, "s20": STRING}, "$ref": "#/$defs/s0"})


def test_a_long_chain_of_references_is_refused() -> None:
    links = {f"s{i}": {"$ref": f"#/$defs/s{i + 1}"} for i in range(3_000)}
    assert "a chain of more than" in refused({"$defs": {**links, "s3000": STRING}})


def test_annotations_are_no_reason_to_refuse() -> None:
    notes = {"title": "T", "description": "d", "default": "x", "examples": ["x"], "$comment": "c"}
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **STRING, **notes}
    assert read_schema(json.dumps(schema)) == schema


def test_anything_is_a_schema_too() -> None:
    """It was a fault of ours: nothing can be added to a schema that is only `true`."""
    assert fits(Structure.json_schema(True), '{"a": [1, null]}')

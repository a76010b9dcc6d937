"""Whatever the model wants to write: what ends, parses and validates."""

import json
from typing import Any

import hypothesis.strategies as st
import jsonschema
import pytest
from grammar_kit import END, ROWS, favour, fits, matcher, text_of, write
from hypothesis import given, settings
from schema_kit import ANY_SCHEMA, SHORT

from colibri.grammar.structure import Structure

ENDS = favour('"}],', 4.0)
SCHEMAS: dict[str, Any] = {
    "anything": True,
    "anything in a list": {"type": "array", "items": True, "minItems": 1, "maxItems": 2},
    "enum": {"enum": ["one", "two words", 3, None, {"a": [1]}]},
    "const": {"const": {"key": 'quoted "text"'}},
    "unicode": {"type": "object", "properties": {"ключ é": SHORT}, "required": ["ключ é"]},
    "empty object": {"type": "object", "properties": {}, "additionalProperties": False},
    "strict": {
        "type": "object",
        "properties": {"mode": {"type": "string", "enum": ["a", "b"]}, "n": {"type": "integer"}},
        "required": ["mode", "n"],
        "additionalProperties": False,
    },
    "nested": {
        "type": "object",
        "properties": {"in": {"type": "object", "properties": {"x": {"type": "boolean"}}}},
        "required": ["in"],
        "additionalProperties": SHORT,
    },
    "numbers": {
        "type": "array",
        "items": {"type": "number", "minimum": -2.5, "exclusiveMaximum": 7},
        "minItems": 2,
        "maxItems": 4,
    },
    "strings": {
        "type": "object",
        "properties": {
            "date": {"type": "string", "format": "date"},
            "code": {"type": "string", "pattern": "^[A-Z]{2}[0-9]+$", "maxLength": 5},
            "host": {"type": "string", "format": "ipv4"},
        },
        "required": ["date", "code", "host"],
    },
    "joined": {
        "allOf": [
            {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
            {"properties": {"a": {"minimum": 10}, "b": SHORT}},
        ]
    },
    "map": {
        "type": "object",
        "patternProperties": {"^n_": {"type": "integer"}},
        "additionalProperties": False,
        "minProperties": 1,
        "maxProperties": 3,
    },
    "tuple": {"type": "array", "prefixItems": [SHORT, {"type": "null"}], "items": False},
    "union": {
        "anyOf": [{"type": "integer"}, SHORT, {"type": "array", "items": SHORT, "maxItems": 2}]
    },
}
OPEN = {"type": "object", "additionalProperties": SHORT}
HOW: list[dict[str, Any]] = [
    {"temperature": 0.0},
    {"temperature": 1.0},
    {"temperature": 2.0, "top_k": 20},
    {"temperature": 2.0, "top_p": 0.9, "min_p": 0.01, "repetition_penalty": 1.3},
]


@pytest.mark.parametrize("name", SCHEMAS)
def test_answers_validate(name: str) -> None:
    structure, ended = Structure.json_schema(SCHEMAS[name]), 0
    for seed, how in enumerate(HOW):
        ids, whole = write(matcher(structure), seed, bias=ENDS, **how)
        if whole:
            jsonschema.validate(json.loads(text_of(ids)), SCHEMAS[name])
            ended += 1
    assert ended >= 2  # else this proves nothing


@given(ANY_SCHEMA, st.integers(0, 2**32), st.sampled_from(HOW))
@settings(max_examples=60, deadline=None)
def test_any_schema_any_seed_any_temperature(schema: Any, seed: int, how: Any) -> None:
    ids, whole = write(matcher(Structure.json_schema(schema)), seed, bias=ENDS, limit=150, **how)
    if whole:
        jsonschema.validate(json.loads(text_of(ids)), schema)


@given(st.integers(0, 2**32), st.sampled_from(HOW))
@settings(max_examples=15, deadline=None)
def test_json_object(seed: int, how: Any) -> None:
    ids, whole = write(matcher(Structure.json_object()), seed, bias=favour('"}', 5.0), **how)
    if whole:
        assert isinstance(json.loads(text_of(ids)), dict)


@given(st.lists(st.text(min_size=1, max_size=8), min_size=1, max_size=5), st.integers(0, 99))
@settings(max_examples=30, deadline=None)
def test_choice_is_word_for_word(options: list[str], seed: int) -> None:
    ids, whole = write(matcher(Structure.choice(options)), seed, temperature=2.0)
    assert whole
    assert text_of(ids) in options


def test_regex_holds_for_the_whole_answer() -> None:
    import re

    pattern = r"(\+|-)?[0-9]{1,3}(\.[a-f]{2})?|naïve"
    for seed in range(10):
        ids, whole = write(matcher(Structure.regex(pattern)), seed, temperature=2.0)
        assert whole
        assert re.fullmatch(pattern, text_of(ids))


def test_a_regex_may_have_anchors_at_its_ends() -> None:
    assert fits(Structure.regex("^ab$"), "ab")
    assert not fits(Structure.regex("^ab$"), "^ab$")


def test_text_fits_however_it_is_spelt() -> None:
    text = json.dumps({"name": "Zoë 🦜", "list": [1, -2.5e3, True]}, ensure_ascii=False)
    for cut in (0, 1, 2, 5):
        assert fits(Structure.json_object(), text, cut=cut)
    assert fits(Structure.json_object(), json.dumps({"a": [{"b": 1}]}, indent=2))


def test_keys_that_have_a_schema_cannot_come_as_others() -> None:
    schema = {**OPEN, "properties": {"a": {"type": "integer"}}}
    for text in ('{"a": "b"}', '{"b": "c", "a": "b"}', '{"\\u0061": "b"}', '{"a": 1, "a": 2}'):
        assert not fits(Structure.json_schema(schema), text)


def test_the_end_is_allowed_only_where_the_structure_may_end() -> None:
    at = matcher(Structure.regex("ab|abc+"))
    seen = []
    for token in "abccc":
        allowed = at.allowed(ROWS)
        assert allowed is not None
        seen.append(bool(allowed[END]))
        at.accept(_token(token))
    assert seen == [False, False, True, False + True, True]
    assert not at.finished  # more of it may come


def _token(character: str) -> int:
    from grammar_kit import tokenizer

    [token] = tokenizer().encode(character, add_special_tokens=False)
    return token

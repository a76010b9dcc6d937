"""What may be asked at all."""

from typing import Any

import pytest

from colibri import SamplingParams, Structure
from colibri.errors import ConfigError, GrammarError


def test_the_same_structure_is_equal_and_hashable() -> None:
    assert len({Structure.regex("a"), Structure("regex", "a"), Structure.lark("a")}) == 2
    assert Structure.json_schema({"type": "null"}) == Structure.json_schema('{"type": "null"}')


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (Structure.json_schema, '{"type": "null"}'),
        (Structure.lark, 'start: "a"'),
        (Structure.gbnf, 'root ::= "a"'),
        (lambda text: Structure("gbnf", text), 'root ::= "a"'),
    ],
)
def test_a_byte_order_mark_is_no_part_of_a_schema_or_grammar(make: Any, text: str) -> None:
    assert make("\ufeff" + text) == make(text)
    assert make(text + "\ufeff") != make(text)


def test_a_regex_may_begin_with_any_character() -> None:
    assert Structure.regex("\ufeffa").source == "\ufeffa"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Structure("xml"), "'xml' is none of json_object"),  # type: ignore[arg-type]
        (lambda: Structure.regex(5), "int given; text expected"),  # type: ignore[arg-type]
        (lambda: Structure.regex("a\ud800"), "lone surrogate"),
        (lambda: Structure.regex("a" * 300_000), "300000 bytes; at most 262144"),
        (lambda: Structure.json_schema({"a": {1}}), "not JSON"),
        (lambda: Structure.json_schema({"a": float("nan")}), "not JSON"),
        (lambda: Structure.choice([]), "at least one"),
        (lambda: Structure.choice("cat"), "a list"),
        (lambda: Structure.choice(["a", ""]), "option 1 is ''"),
        (lambda: Structure.choice(["a", 3]), "option 1 is 3"),  # type: ignore[list-item]
        (lambda: Structure.choice(["a"] * 1001), "1001 options"),
    ],
)
def test_what_is_no_structure_is_refused(make: Any, words: str) -> None:
    with pytest.raises(GrammarError, match=words):
        make()


def test_params_take_only_structures() -> None:
    with pytest.raises(ConfigError, match="structure: str is no Structure"):
        SamplingParams(structure="[a-z]+")  # type: ignore[arg-type]

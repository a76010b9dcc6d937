"""Bounds beyond what the compiler follows: 64 bits of an integer, the digits of a float."""

from typing import Any

import jsonschema
import pytest
from grammar_kit import fits

from colibri.errors import GrammarError
from colibri.grammar.structure import Structure

INT64 = {"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1}


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        (INT64, "1152921504606846976", "10000000000000000000"),
        (INT64, "-9199999999999999999", "-9300000000000000000"),
        ({"type": ["integer", "null"], "maximum": 2**64 - 1}, "9199999999999999999", "1e3"),
        ({"type": "integer", "minimum": 2**53 + 1}, str(2**53 + 2), str(2**53)),
        ({"type": "integer", "maximum": -(2**53) - 1}, str(-(2**53) - 2), str(-(2**53))),
        ({"type": "integer", "exclusiveMinimum": -(10**400)}, "-5", "1.5"),
        ({"type": "number", "minimum": -1e30, "maximum": 1e300}, "-25.5", "-1e31"),
        ({"minimum": -1e30}, '"text"', "-9000000000000000000000000000000000"),
    ],
)
def test_what_is_written_fits(schema: dict[str, Any], good: str, bad: str) -> None:
    structure = Structure.json_schema(schema)
    assert fits(structure, good)
    assert not fits(structure, bad)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "integer", "minimum": 10**29, "maximum": 10**30},
        {"type": "integer", "exclusiveMaximum": -(10**400)},
        {"type": "number", "minimum": 1e308},
        {"exclusiveMaximum": -1e30},
    ],
)
def test_a_range_too_far_out_is_refused(schema: dict[str, Any]) -> None:
    jsonschema.Draft202012Validator.check_schema(schema)
    with pytest.raises(GrammarError, match="so far from zero"):
        fits(Structure.json_schema(schema), "1")


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ({"type": "number", "multipleOf": 1e-300}, "more digits"),
        ({"type": "integer", "multipleOf": 10**30}, "more digits"),
        ({"type": "number", "minimum": 1e-300}, "more zeros"),
    ],
)
def test_too_many_digits_are_called_so(schema: dict[str, Any], says: str) -> None:
    with pytest.raises(GrammarError, match=says):
        fits(Structure.json_schema(schema), "1")

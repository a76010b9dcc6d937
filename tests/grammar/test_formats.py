"""Dates and times that are written exist."""

import calendar
import json
import re
from typing import Any

import pytest
from grammar_kit import fits

from colibri.grammar.formats import DATE, TIME
from colibri.grammar.structure import Structure

YEARS = (0, 1, 4, 10, 96, 100, 104, 400, 1000, 1900, 2000, 2023, 2024, 2100, 9996, 9999)


@pytest.mark.parametrize("year", YEARS)
def test_every_day_of_a_year_and_no_other(year: int) -> None:
    for month in range(14):
        for day in range(33):
            there = year > 0 and 1 <= month <= 12 and day >= 1
            there = there and day <= calendar.monthrange(year, month)[1]
            text = f"{year:04}-{month:02}-{day:02}"
            assert bool(re.fullmatch(DATE, text)) is there, text


def test_every_time_of_a_day() -> None:
    for at in range(100):
        for text, most in ((f"{at:02}:00:00Z", 24), (f"23:{at:02}:59.5+01:00", 60)):
            assert bool(re.fullmatch(TIME, text)) is (at < most), text
        assert bool(re.fullmatch(TIME, f"00:00:{at:02}-{at % 24:02}:59")) is (at < 60)


@pytest.mark.parametrize(
    ("kind", "right", "wrong"),
    [
        ("date", "2024-02-29", "2023-02-29"),
        ("time", "23:59:59Z", "23:59:60Z"),
        ("date-time", "2024-02-29T00:00:00.5+02:00", "2024-02-29t00:00:00Z"),
    ],
)
@pytest.mark.parametrize(
    "beside", [{}, {"pattern": "[0-5]"}, {"allOf": [{"maxLength": 40}]}], ids=str
)
def test_they_are_enforced(kind: str, right: str, wrong: str, beside: dict[str, Any]) -> None:
    schema = {"type": ["string", "null"], "format": kind} | beside
    structure = Structure.json_schema({"$ref": "#/$defs/at", "$defs": {"at": schema}})
    assert fits(structure, json.dumps(right))
    assert fits(structure, "null")
    assert not fits(structure, json.dumps(wrong))


def test_what_only_looks_like_one_is_left() -> None:
    """A property of that name, a constant."""
    schema = {"properties": {"format": {"const": {"format": "date"}}}, "required": ["format"]}
    assert fits(Structure.json_schema(schema), '{"format": {"format": "date"}}')

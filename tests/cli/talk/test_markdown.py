"""Styles come and go; the text is the text."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colibri.cli.talk.markdown import Styler

TEXT = st.text(st.sampled_from("ab1 *_`~#->.\n\t\u2028é\x0b"), max_size=60)


def shown(*pieces: str) -> str:
    styler = Styler()
    return "".join(map(styler.feed, pieces)) + styler.finish()


def stripped(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


@given(st.lists(TEXT, max_size=12))
def test_no_character_is_changed_and_cuts_do_not_matter(pieces: list[str]) -> None:
    text = "".join(pieces)
    assert stripped(shown(*pieces)) == text
    assert _cells(shown(*pieces)) == _cells(shown(*text))


def _cells(text: str) -> list[tuple[str, str]]:
    """Each character with its style."""
    style, cells = "", []
    for code, char in re.findall(r"\x1b\[([0-9;]*)m|([^\x1b])", text):
        if char:
            cells.append((char, style if char != "\n" else ""))
        else:
            style = code if code != "0" else ""
    return cells


def styles(text: str, of: str) -> set[str]:
    cells = _cells(shown(text))
    at = text.index(of)
    return {style for _, style in cells[at : at + len(of)]}


@pytest.mark.parametrize(
    ("text", "of", "style"),
    [
        ("# Head\ntext", "Head", "1"),
        ("# Head\ntext", "text", ""),
        ("a **bold** c", "**bold**", "1"),
        ("a **bold** c", " c", ""),
        ("a *it* c", "*it*", "3"),
        ("2 * 3 * 4", " 3 ", ""),
        ("snake_case_name", "case", ""),
        ("a `x*y*z` c", "`x*y*z`", "36"),
        ("- item", "- ", "1"),
        ("12. item", "item", ""),
        ("> said", "said", "3"),
        ("```py\nx = *a*\n```\nb", "x = *a*", "36"),
        ("```py\nx = *a*\n```\nb", "b", ""),
        ("~~~\n```\n~~~\nb", "```", "36"),
        ("**open\nnext", "next", ""),
    ],
)
def test_styles(text: str, of: str, style: str) -> None:
    assert styles(text, of) == {style}


def test_text_is_held_back_no_longer_than_its_kind_is_open() -> None:
    styler = Styler()
    assert styler.feed("#") == ""
    assert stripped(styler.feed(" A")) == "# A"
    assert styler.feed(" b") == "\x1b[1m b\x1b[0m"  # and each piece ends unstyled

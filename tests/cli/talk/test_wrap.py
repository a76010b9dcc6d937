"""Rows end at words, and no character but the blanks there is left out."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colibri.cli.talk.markdown import Styler
from colibri.cli.talk.wrap import Wrapper

TEXT = st.text(st.sampled_from("abc  \t\n*`#-日本。「é\u0301\U0001f600"), max_size=80)


def wrapped(text: str, width: int) -> str:
    wrapper = Wrapper(lambda: width)
    return wrapper.feed(text) + wrapper.finish()


@pytest.mark.parametrize(
    ("text", "width", "rows"),
    [
        ("one two three", 7, ["one two", "three"]),
        ("one two three", 6, ["one", "two", "three"]),
        ("one two", 0, ["one two"]),  # no terminal
        ("one  two\n  three four\n", 8, ["one  two", "  three", "four", ""]),
        ("one two   \nthree", 8, ["one two", "three"]),
        # Of such a word the terminal makes three rows, the last of three letters.
        ("a incomprehensibility bcde f", 8, ["a", "incomprehensibility bcde", "f"]),
        ("a incomprehensibility bcdef", 8, ["a", "incomprehensibility", "bcdef"]),
        ("日本語です", 6, ["日本語", "です"]),
        ("日本語。です", 6, ["日本", "語。で", "す"]),
        ("日本「語」", 6, ["日本", "「語」"]),
        ("ab 日本", 5, ["ab 日", "本"]),
        ("né\u0301e nee", 7, ["né\u0301e nee"]),  # an accent takes no cell
        ("a\tb c", 9, ["a\tb", "c"]),
    ],
)
def test_rows(text: str, width: int, rows: list[str]) -> None:
    assert wrapped(text, width).split("\n") == rows


@given(st.lists(TEXT, max_size=6), st.integers(1, 30))
def test_only_blanks_are_left_out_and_cuts_do_not_matter(pieces: list[str], width: int) -> None:
    text, wrapper = "".join(pieces), Wrapper(lambda: width)
    shown = "".join(map(wrapper.feed, pieces)) + wrapper.finish()
    assert shown == wrapped(text, width)
    assert re.sub(r"[ \t\n]", "", shown) == re.sub(r"[ \t\n]", "", text)
    assert wrapped(text, 0) == text


@given(st.text(st.sampled_from("abcd \n"), max_size=80), st.integers(1, 12))
def test_a_row_that_is_too_long_has_a_word_that_is(text: str, width: int) -> None:
    for row in wrapped(text, width).split("\n"):
        first = re.match(r" *[^ ]*", row)
        assert first is not None
        assert len(row) <= width or first.end() > width


def test_a_word_is_held_back_and_no_more() -> None:
    wrapper = Wrapper(lambda: 20)
    assert [wrapper.feed(part) for part in ("on", "e tw", "o\n")] == ["", "one", " two\n"]


def test_a_terminal_may_be_resized_meanwhile() -> None:
    widths = [7]
    wrapper = Wrapper(lambda: widths[0])
    shown = wrapper.feed("one two three ")
    widths[0] = 40
    shown += wrapper.feed("four five six ")
    widths[0] = 10
    assert shown + wrapper.feed("seven ") == "one two\nthree four five six\nseven"


def test_styles_go_on_in_the_next_row_and_code_is_not_wrapped() -> None:
    text = "a **bold - word** b\n```\nx = 1 + 2 + 3 + 4\n```\nlast words here"
    for styled in (True, False):
        styler = Styler(styled, Wrapper(lambda: 8))
        shown = "".join(map(styler.feed, text)) + styler.finish()
        plain = re.sub(r"\x1b\[[0-9;]*m", "", shown)
        assert plain == ("a **bold\n- word**\nb\n```\nx = 1 + 2 + 3 + 4\n```\nlast\nwords\nhere")
        assert (shown == plain) == (not styled)
    styler = Styler(True, Wrapper(lambda: 8))
    assert "\n\x1b[1m-\x1b[0m\x1b[1m word**\x1b[0m\n" in styler.feed(text) + styler.finish()

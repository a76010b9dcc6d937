"""Stop strings over any cut of the text (B069)."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colibri.errors import ConfigError
from colibri.text.stop import StopMatcher


def run(stops: list[str], parts: list[str]) -> tuple[str, str | None]:
    matcher, shown = StopMatcher(stops), ""
    for part in parts:
        text, stopped = matcher.push(part)
        shown += text
        if stopped:
            return shown, matcher.matched
    return shown + matcher.flush(), None


@pytest.mark.parametrize(
    ("stops", "parts", "shown", "matched"),
    [
        (["END"], ["a E", "N", "D b"], "a ", "END"),
        (["END"], ["a EN", "DX"], "a ", "END"),
        (["END"], ["a EN", "X"], "a ENX", None),
        (["END"], ["a", " EN"], "a EN", None),
        (["END"], ["END"], "", "END"),
        (["END"], ["EEND"], "E", "END"),
        (["aab", "ab"], ["a", "a", "b"], "", "aab"),
        (["aab", "ab"], ["aaab"], "a", "aab"),
        (["aab", "ab"], ["cab"], "c", "ab"),
        (["abcd", "bc"], ["abcd"], "a", "bc"),
        (["abab!"], ["aba", "babab!"], "aba" + "b", "abab!"),
        (["\n\n"], ["x\n", "\ny"], "x", "\n\n"),
        (["👍"], ["a👍b"], "a", "👍"),
        ([], ["a", "b"], "ab", None),
    ],
)
def test_where_text_ends(
    stops: list[str], parts: list[str], shown: str, matched: str | None
) -> None:
    assert run(stops, parts) == (shown, matched)


@settings(max_examples=150)
@given(
    stops=st.lists(st.text("ab", min_size=1, max_size=5), max_size=3),
    text=st.text("abc", max_size=20),
    cuts=st.sets(st.integers(1, 19)),
)
def test_the_cut_does_not_matter(stops: list[str], text: str, cuts: set[int]) -> None:
    edges = [0, *sorted(cut for cut in cuts if cut < len(text)), len(text)]
    parts = [text[a:b] for a, b in pairwise(edges)]
    assert run(stops, parts) == run(stops, [text]) == run(stops, list(text))
    ends = [text.find(stop) + len(stop) for stop in stops if stop in text]
    shown, matched = run(stops, parts)
    if not ends:
        assert (shown, matched) == (text, None)
    else:
        assert text[: min(ends)] == shown + str(matched)


@given(stop=st.text("ab", min_size=1, max_size=4), text=st.text("ab", max_size=12))
def test_no_part_of_a_stop_is_shown(stop: str, text: str) -> None:
    matcher, shown = StopMatcher([stop]), ""
    for char in text:
        part, _ = matcher.push(char)
        shown += part
        complete = text.find(stop)
        assert len(shown) <= (complete if complete >= 0 else len(text))
    assert text.startswith(shown)


def test_after_the_stop_there_is_nothing() -> None:
    matcher = StopMatcher(["x"])
    assert matcher.push("axb") == ("a", True)
    assert matcher.push("more") == ("", True)
    assert matcher.flush() == ""


def test_text_is_shown_at_once_when_it_cannot_be_a_stop() -> None:
    matcher = StopMatcher(["END"])
    assert matcher.push("hello") == ("hello", False)
    assert matcher.push("E") == ("", False)
    assert matcher.push("asy") == ("Easy", False)


def test_an_empty_stop_is_refused() -> None:
    with pytest.raises(ConfigError, match="stop"):
        StopMatcher(["a", ""])

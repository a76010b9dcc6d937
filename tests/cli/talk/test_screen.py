"""What stands on the screen is what the API gave."""

from __future__ import annotations

import re
import sys
from typing import Any

import pytest

from colibri.cli import terminal
from colibri.cli.talk.screen import Look, Screen, show_thinking

ANSWER = "# Title\n\nSome **bold** text, `code`, 2 * 3.\n```py\nx = 1\n```\nEnd"


@pytest.mark.parametrize("styled", [True, False])
def test_screen_text_is_the_text(styled: bool, capsys: Any) -> None:
    screen = Screen(Look(styled))
    for char in ANSWER:
        screen.text(char)
    screen.end()
    out = capsys.readouterr().out
    assert ("\x1b" in out) == styled
    assert re.sub(r"\x1b\[[0-9;]*m", "", out) == ANSWER


@pytest.mark.parametrize("styled", [True, False])
def test_a_terminal_does_not_obey_the_model(styled: bool, capsys: Any) -> None:
    screen = Screen(Look(styled))
    screen.text("a\x1b]0;title\x07b\x9b")
    screen.end()
    assert capsys.readouterr().out == "a\ufffd]0;title\ufffdb\ufffd"


def test_thinking_is_folded_to_a_line_with_its_length(capsys: Any) -> None:
    screen = Screen(Look(False))
    screen.reasoning("secret ")
    screen.reasoning("thoughts")
    screen.text("Yes.")
    screen.end()
    captured = capsys.readouterr()
    assert captured.out == "Yes."
    assert "secret" not in captured.err
    assert re.fullmatch(
        r"\(thought for .* s, 15 characters; /thinking show tells it\)\n", captured.err
    )


def test_thinking_unfolded_is_shown_as_it_comes(capsys: Any) -> None:
    screen = Screen(Look(False, unfolded=True))
    screen.reasoning("Hm.")
    screen.end()  # an answer that was thinking only
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "Hm.\n\n")


def test_thinking_is_dim_on_a_terminal(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    screen = Screen(Look(True, unfolded=True))
    screen.reasoning("Hm.")
    assert capsys.readouterr().err == "\x1b[2mHm.\x1b[22m"


def test_thinking_is_wrapped_as_it_comes_and_when_it_is_shown_later(
    capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminal, "columns", lambda _stream: 8)
    look = Look(False, wrapped=True, unfolded=True)
    screen = Screen(look)
    for char in "one two three":
        screen.reasoning(char)
    screen.text("four five")
    screen.end()
    show_thinking("one two three", look)
    captured = capsys.readouterr()
    assert captured.err == "one two\nthree\n\n" * 2
    assert captured.out == "four\nfive"


@pytest.mark.parametrize("setting", [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_a_terminal_without_colours_does_not_obey_thinking(
    setting: tuple[str, str], capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv(*setting)
    terminal.write_aside("a\x1b[2Jb")
    assert capsys.readouterr().err == "a\ufffd[2Jb"

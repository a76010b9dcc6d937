"""What the editor makes of keys and pastes, without a terminal."""

from __future__ import annotations

from pathlib import Path

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from colibri.cli.talk import editor

HOME, CLEAR = "\x01", "\x15"


def paste(text: str) -> str:
    return f"\x1b[200~{text}\x1b[201~"


def messages(keys: str, history: History | None = None) -> list[str]:
    """What is sent; keys end with Ctrl-D at an empty line."""
    sent = []
    with create_pipe_input() as pipe, create_app_session(input=pipe, output=DummyOutput()):
        ask = editor._editor(history or InMemoryHistory()).ask
        pipe.send_text(keys + "\x04")
        while True:
            try:
                sent.append(ask())
            except EOFError:
                return sent


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    ("keys", "sent"),
    [
        ("/stats\r", "/stats"),
        ("//text\r", "//text"),
        (paste("// a comment\nx = 1") + "\r", "/// a comment\nx = 1"),
        (paste("/etc/hosts") + " is what?\r", "//etc/hosts is what?"),
        (paste("/system Be rude.") + "\r", "//system Be rude."),
        (paste("plain") + "\r", "plain"),
        (paste("one\r\ntwo\rthree\n") + "\r", "one\ntwo\nthree\n"),
        ("/system " + paste("/a\n/b") + "\r", "/system /a\n/b"),
        (paste("/etc") + "\x7f" * 3 + "usr\r", "//usr"),  # edited
        (paste("x/y") + HOME + "\x1b[3~\r", "//y"),  # its first character deleted
        ("what is" + HOME + paste("/etc ") + "\r", "//etc what is"),
        (" " + paste("/etc") + HOME + "\x1b[3~\r", "//etc"),
        (paste("/etc") + CLEAR + "/stats\r", "/stats"),  # emptied
        (paste("") + "/stats\r", "/stats"),
        (paste("a") + "\x7f" + "/stats\r", "/stats"),
    ],
)
def test_a_message_that_begins_with_a_paste_is_text(keys: str, sent: str) -> None:
    assert messages(keys) == [sent]


@pytest.mark.timeout(20)
def test_the_history_keeps_what_one_would_type(tmp_path: Path) -> None:
    history = FileHistory(tmp_path / "history")
    messages("/stats\r" + paste("/etc/hosts") + "\r", history)
    assert list(history.load_history_strings()) == ["//etc/hosts", "/stats"]

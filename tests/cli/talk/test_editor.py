from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path
from threading import Event
from types import SimpleNamespace

import pytest
from prompt_toolkit import PromptSession
from prompt_toolkit.application import create_app_session
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.keys import Keys
from prompt_toolkit.output import DummyOutput

from colibri.cli.talk import editor
from colibri.cli.talk.editor import CommandCompleter
from colibri.cli.talk.pastes import Pastes


def completions(text: str) -> list[str]:
    found = CommandCompleter().get_completions(Document(text), CompleteEvent())
    return [text[: len(text) + c.start_position] + c.text for c in found]


def test_commands_and_their_words(tmp_path: Path) -> None:
    assert completions("/th") == ["/think", "/thinking"]
    assert completions("/set tem") == ["/set temperature"]
    assert "/think low" in completions("/think ")
    assert completions("/thinking s") == ["/thinking show"]
    (tmp_path / "talk.json").touch()
    assert completions(f"/load {tmp_path}/ta") == [f"/load {tmp_path}/talk.json"]


def test_nothing_for_messages() -> None:
    for text in ("", "he", "//th", "/nothing x", "/set temperature 0", "/help x"):
        assert completions(text) == []


@pytest.mark.parametrize("sent", [False, True], ids=["no line is open", "the line is sent"])
def test_an_interrupt_that_comes_late_is_no_error_and_not_lost(
    sent: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It reaches the line editor, in whose event loop it waited, when that has ended already."""
    made = []
    keys = editor._keys

    def spied(pastes: Pastes, late: Event) -> KeyBindings:
        made.append(keys(pastes, late))
        return made[0]

    def prompt(self: PromptSession[str]) -> str:
        (binding,) = made[0].get_bindings_for_keys((Keys.SIGINT,))
        future = Future[str]() if sent else None
        if future is not None:
            future.set_result("hi")
        binding.handler(SimpleNamespace(app=SimpleNamespace(future=future)))
        return "hi"

    monkeypatch.setattr(editor, "_keys", spied)
    monkeypatch.setattr(PromptSession, "prompt", prompt)
    with (
        create_pipe_input() as pipe,
        create_app_session(input=pipe, output=DummyOutput()),
        pytest.raises(KeyboardInterrupt),
    ):
        editor._editor(InMemoryHistory()).ask()
    assert capsys.readouterr().err == "(stopped)\n"

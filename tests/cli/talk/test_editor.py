from __future__ import annotations

from pathlib import Path

from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from colibri.cli.talk.editor import CommandCompleter


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

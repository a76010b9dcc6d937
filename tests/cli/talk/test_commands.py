"""Each command, over a model without arithmetic."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from colibri.cli.talk import brio, saved
from colibri.cli.talk.backend import Wishes
from colibri.cli.talk.commands import Leave, obey
from colibri.cli.talk.conversation import Conversation
from colibri.cli.talk.loop import attempt, handle
from colibri.cli.talk.screen import Look
from colibri.errors import ColibriError, ConfigError

CHOICES = [
    SimpleNamespace(option=option, p=p, logprob=-1.0, mean_logprob=-0.5, tokens=2)
    for option, p in (("yes", 0.25), ("no", 0.75))
]


class Script:
    """A backend whose answers count up."""

    def __init__(self) -> None:
        self.asked: list[list[Any]] = []
        self.wishes: list[Wishes] = []
        self.scored: list[Any] = []

    def stream(self, messages: Any, wishes: Wishes, on_progress: Any) -> Any:
        self.asked.append(list(messages))
        self.wishes.append(wishes)
        text = f"Answer {len(self.asked)}."
        parts = (("", "Hm.", None), (text, "", "stop"))
        for said, thought, reason in parts:
            yield SimpleNamespace(
                text=said, reasoning=thought, token_ids=(1,), finish_reason=reason
            )

    def score(self, messages: Any, options: Any) -> Any:
        self.scored.append((list(messages), list(options)))
        return SimpleNamespace(choices=CHOICES, best=CHOICES[1], entropy=0.5, warnings=("W",))

    def tokens(self, answer: Any) -> int:
        return len(answer.token_ids)

    def facts(self, answer: Any) -> list[str]:
        return [f"facts of {answer.text}"]


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
def chat(script: Script) -> Conversation:
    return Conversation(script, Wishes(), None, quiet=False, look=Look(styled=False))


def contents(messages: list[Any]) -> list[str]:
    return [message["content"] for message in messages]


def test_regenerate_asks_the_last_question_again(chat: Conversation, script: Script) -> None:
    handle("Q", chat)
    handle("/regenerate", chat)
    assert contents(script.asked[1]) == ["Q"]
    assert contents(chat.messages) == ["Q", "Answer 2."]
    handle("/undo", chat)
    assert contents(chat.messages) == ["Q", "Answer 1."]


def test_one_message_is_singular(
    chat: Conversation, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = tmp_path / "one.json"
    saved.save(one, [{"role": "user", "content": "Q"}])
    handle(f"/load {one}", chat)
    assert "1 message;" in capsys.readouterr().err
    handle("Q", chat)
    handle("/undo", chat)
    assert "(back to 1 message)" in capsys.readouterr().err


def test_undo_takes_back_turns_and_changes(chat: Conversation) -> None:
    handle("Q", chat)
    handle("/clear", chat)
    assert chat.messages == []
    handle("/undo", chat)
    assert contents(chat.messages) == ["Q", "Answer 1."]
    handle("/undo", chat)
    assert chat.messages == []
    with pytest.raises(ConfigError, match="nothing to undo"):
        handle("/undo", chat)


def test_system_message(chat: Conversation, script: Script) -> None:
    handle("Q", chat)
    handle("/system Be brief.", chat)
    handle("R", chat)
    assert contents(script.asked[1]) == ["Be brief.", "Q", "Answer 1.", "R"]
    handle("/clear", chat)
    assert contents(chat.messages) == ["Be brief."]
    handle("/system off", chat)
    assert chat.messages == []


def test_set_and_think(chat: Conversation, script: Script) -> None:
    handle("/set temperature 0.2", chat)
    handle("/set max_tokens 7", chat)
    handle("/think low", chat)
    handle("Q", chat)
    assert chat.wishes.given == {"temperature": 0.2, "max_tokens": 7}
    assert chat.wishes.options == {"reasoning_effort": "low"}
    handle("/think off", chat)
    assert chat.wishes.options == {"thinking": False}
    handle("/think default", chat)
    handle("/set temperature default", chat)
    assert (chat.wishes.given, chat.wishes.options) == ({"max_tokens": 7}, {})


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("/set temperature hot", "'hot' is not a finite number"),
        ("/set temperature -1", "temperature is -1.0"),
        ("/set temperature 99", "temperature is 99.0; a number from 0 to 2 expected"),
        ("/set temprature 1", "no setting 'temprature'; known are max_tokens"),
        ("/set seed", "a value, or default, expected"),
        ("/think hard", "'hard' is none of on, off, none"),
        ("/thinking loud", "none of show, fold"),
        ("/stats maybe", "none of on, off"),
        ("/regenerate", "there is no question yet"),
        ("/brio Is it? yes", "two options or more"),
        ("/brio Is it? yes | yes", "is there twice"),
        ("/brio a | b", "there is no question yet"),
        ("/save", "there is no conversation yet"),
        ("/load", "the name of a file expected"),
        ("/load /nonexistent/x.json", "/nonexistent/x.json"),
        ("/load x.md", "markdown is for reading"),
        ("/", "unknown command /"),
        ("/QUIT", "unknown command /QUIT"),
    ],
)
def test_errors_are_told_and_change_nothing(
    chat: Conversation, capsys: Any, line: str, words: str
) -> None:
    assert attempt(line, chat)
    err = capsys.readouterr().err
    assert err.startswith("coli: error: ")
    assert words in err
    assert (chat.wishes, chat.messages) == (Wishes(), [])


@pytest.mark.parametrize("line", ["/quit", "/exit", "/q", " /quit ".strip()])
def test_quit(chat: Conversation, line: str) -> None:
    assert not attempt(line, chat)
    with pytest.raises(Leave):
        obey(line, chat)


def test_stats_and_speed(chat: Conversation, capsys: Any) -> None:
    handle("/stats", chat)
    handle("/stats on", chat)
    handle("Q", chat)
    handle("/stats", chat)
    err = capsys.readouterr().err
    assert err.startswith("no answer yet\n")
    assert "(2 tokens, " in err
    assert "first after" in err
    assert err.endswith("facts of Answer 1.\n")


def test_thinking_is_told_later(chat: Conversation, capsys: Any) -> None:
    handle("Q", chat)
    assert "Hm." not in capsys.readouterr().err
    handle("/thinking show", chat)
    assert capsys.readouterr().err == "Hm.\n\n"
    handle("Q", chat)
    assert capsys.readouterr().err.startswith("Hm.\n\n")


def test_brio(chat: Conversation, script: Script, capsys: Any) -> None:
    handle("Q", chat)
    capsys.readouterr()
    handle("/brio Is A or B? I ask? yes | no", chat)
    captured = capsys.readouterr()
    assert contents(script.scored[0][0]) == ["Q", "Answer 1.", "Is A or B? I ask?"]
    assert script.scored[0][1] == ["yes", "no"]
    assert "* " + f"{'75.0 %':>7}" in captured.out
    assert captured.err == "coli: warning: W\n"
    handle("/brio a|b | c", chat)
    assert contents(script.scored[1][0]) == ["Q"]
    assert contents(chat.messages) == ["Q", "Answer 1."]
    assert brio.parse("Which? | a | b") == ("Which?", ["a", "b"])


def test_save_and_load(chat: Conversation, script: Script, tmp_path: Path) -> None:
    handle("/system S", chat)
    handle("Q", chat)
    path = tmp_path / "chat.json"
    handle(f"/save {path}", chat)
    before = path.read_bytes()
    with pytest.raises(ConfigError, match="is there already"):
        handle(f"/save {path}", chat)
    assert path.read_bytes() == before
    other = Conversation(script, Wishes(), None, quiet=True)
    handle(f"/load {path}", other)
    assert other.messages == chat.messages
    assert other.messages[-1]["reasoning_content"] == "Hm."
    markdown = tmp_path / "chat.md"
    handle(f"/save {markdown}", chat)
    assert markdown.read_text() == (
        "## System\n\nS\n\n## Question\n\nQ\n\n## Answer\n\nAnswer 1.\n"
    )


def test_a_save_that_fails_leaves_no_file(
    chat: Conversation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise ColibriError("disk full")

    monkeypatch.setattr(saved, "write_text", full)
    handle("Q", chat)
    with pytest.raises(ColibriError, match="disk full"):
        handle(f"/save {tmp_path / 'x.json'}", chat)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({}, "no conversation that /save wrote"),
        ({"format": "colibri-chat", "version": 2}, "version 2"),
        ({"format": "colibri-chat", "version": 1, "messages": 3}, "no list of messages"),
        ({"format": "colibri-chat", "version": 1, "messages": [3]}, r"messages\[0\]"),
        (
            {"format": "colibri-chat", "version": 1, "messages": [{"role": "user", "content": 3}]},
            "its content is no text",
        ),
        (
            {
                "format": "colibri-chat",
                "version": 1,
                "messages": [{"role": "user", "content": "", "x": 1}],
            },
            "unknown key 'x'",
        ),
    ],
)
def test_damaged_files_are_refused(tmp_path: Path, document: Any, words: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps(document))
    with pytest.raises(ConfigError, match=words):
        saved.load(path)

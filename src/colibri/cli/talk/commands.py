"""The commands of a conversation: one table for obeying, /help and completion."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from colibri.cli import terminal
from colibri.cli.talk import brio, saved, settings
from colibri.cli.talk.conversation import Conversation
from colibri.cli.talk.screen import Look, show_thinking
from colibri.errors import ConfigError
from colibri.words import count

_AFTER_HELP = (
    "//text sends a message that begins with a slash; what is pasted is text, never a command.",
    "Alt-Enter starts a new line. Ctrl-C stops an answer, twice at an empty line it leaves, as",
    "Ctrl-D does.",
)


class Leave(Exception):
    """The person has said so."""


@dataclass(frozen=True)
class Command:
    """words: what may stand behind it, for completion; files: a name of one may."""

    form: str
    help: str
    obey: Callable[[Conversation, str], None]
    words: Callable[[], Sequence[str]] = tuple
    files: bool = False


def obey(line: str, conversation: Conversation) -> None:
    """Raises ConfigError for what is no command or cannot be, Leave, and what the command does."""
    name, _, rest = line.strip().removeprefix("/").partition(" ")
    command = COMMANDS.get(_ALIASES.get(name, name))
    if command is None:
        near = difflib.get_close_matches(name, COMMANDS, n=1)
        hint = f"did you mean /{near[0]}? " if near else ""
        raise ConfigError(f"unknown command /{name[:40]}; {hint}/help tells them")
    command.obey(conversation, rest.strip())


def _help(_conversation: Conversation, _text: str) -> None:
    for command in COMMANDS.values():
        terminal.say(f"{command.form:<28}{command.help}")
    for line in _AFTER_HELP:
        terminal.say(line)


def _stats(conversation: Conversation, text: str) -> None:
    if text:
        _look(conversation).speed = _one_of("/stats", text, ("on", "off")) == "on"
        return
    for line in conversation.last_turn or ["no answer yet"]:
        terminal.say(line)


def _thinking(conversation: Conversation, text: str) -> None:
    unfold = _one_of("/thinking", text or "show", ("show", "fold")) == "show"
    if conversation.look is not None:
        conversation.look.unfolded = unfold
    if unfold and conversation.last is not None and conversation.last.reasoning:
        show_thinking(conversation.last.reasoning, conversation.look)
    elif unfold:
        terminal.say("(no thinking to show yet)")


def _save(conversation: Conversation, text: str) -> None:
    if not conversation.messages:
        raise ConfigError("/save: there is no conversation yet")
    path = _path("/save", text)
    saved.save(path, conversation.messages)
    terminal.say(f"(saved to {path})")


def _load(conversation: Conversation, text: str) -> None:
    path = _path("/load", text)
    messages = saved.load(path)
    conversation.replace(messages)
    terminal.say(f"(goes on from {path}, {count(len(messages), 'message')}; /undo returns)")


def _system(conversation: Conversation, text: str) -> None:
    if not text:
        terminal.say(conversation.system or "(no system message)")
    else:
        conversation.instruct(None if text == "off" else text)


def _set(conversation: Conversation, text: str) -> None:
    name, _, value = text.partition(" ")
    if not name:
        for line in settings.describe(conversation.wishes):
            terminal.say(line)
    elif not value.strip():
        raise ConfigError(f"/set {name[:40]}: a value, or {settings.DEFAULT}, expected")
    else:
        settings.change(conversation.wishes, name, value.strip())


def _think(conversation: Conversation, text: str) -> None:
    if text:
        settings.think(conversation.wishes, text)
    else:
        terminal.say(f"thinking: {settings.thinking(conversation.wishes)}")


def _regenerate(conversation: Conversation, _text: str) -> None:
    conversation.regenerate()


def _undo(conversation: Conversation, _text: str) -> None:
    conversation.undo()
    terminal.say(f"(back to {count(len(conversation.messages), 'message')})")


def _clear(conversation: Conversation, _text: str) -> None:
    conversation.clear()
    terminal.say("(forgotten; /undo brings it back)")


def _quit(_conversation: Conversation, _text: str) -> None:
    raise Leave


def _look(conversation: Conversation) -> Look:
    if conversation.look is None:
        raise ConfigError("only in a terminal")
    return conversation.look


def _one_of(name: str, text: str, words: Sequence[str]) -> str:
    if text not in words:
        raise ConfigError(f"{name}: {text[:40]!r} is none of {', '.join(words)}")
    return text


def _path(name: str, text: str) -> Path:
    if not text:
        raise ConfigError(f"{name}: the name of a file expected")
    return Path(text).expanduser()


COMMANDS = {
    "help": Command("/help", "this", _help),
    "brio": Command(brio.FORM, "how likely each answer is; generates nothing", brio.answer),
    "stats": Command(
        "/stats [on|off]",
        "what the last answer cost; on: its speed after each",
        _stats,
        lambda: ("on", "off"),
    ),
    "save": Command("/save FILE", "JSON, or markdown for .md; replaces no file", _save, files=True),
    "load": Command("/load FILE", "go on with a conversation saved as JSON", _load, files=True),
    "system": Command("/system [TEXT|off]", "show, set or drop the system message", _system),
    "set": Command(
        "/set [NAME VALUE|default]",
        "sampling, e.g. /set temperature 0.2",
        _set,
        lambda: settings.FIELDS,
    ),
    "think": Command("/think on|off|low|...", "how hard to think", _think, settings.levels),
    "thinking": Command(
        "/thinking [show|fold]",
        "the last answer's thinking; show it as it comes, or not",
        _thinking,
        lambda: ("show", "fold"),
    ),
    "regenerate": Command("/regenerate", "another answer to the last question", _regenerate),
    "undo": Command("/undo", "take the last turn or change back", _undo),
    "clear": Command("/clear", "forget the conversation", _clear),
    "quit": Command("/quit", "leave", _quit),
}
_ALIASES = {"reset": "clear", "exit": "quit", "q": "quit"}

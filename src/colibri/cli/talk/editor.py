"""The input line of `coli chat`: history, completion, pastes as text."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from threading import Event

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.history import History
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

from colibri.cli import terminal
from colibri.cli.interrupt import Terminated
from colibri.cli.talk.commands import COMMANDS
from colibri.cli.talk.keyboard import Keyboard
from colibri.cli.talk.pastes import Pastes, TypedHistory

Ask = Callable[[], str]
Around = Callable[[], AbstractContextManager[None]]


@dataclass(frozen=True)
class Editor:
    """ask: for a message. typed: how far one has come that was not sent. silenced: around all of
    its use; kept: while no message is asked for."""

    ask: Ask
    typed: Ask = str
    silenced: Around = nullcontext
    kept: Around = nullcontext


@contextmanager
def editing(history: History) -> Iterator[Editor]:
    """Gives the terminal back as it was."""
    editor = _editor(history) if terminal.is_terminal(sys.stdout) else _plain()
    with editor.silenced():
        yield editor


def read_messages(editor: Editor) -> Generator[str, None, None]:
    """Messages until Ctrl-D; Ctrl-C clears the line, twice at an empty one it ends them. Close
    it."""
    for message in _asked(editor):
        with editor.kept():
            yield message


def _asked(editor: Editor) -> Iterator[str]:
    warned = False
    while True:
        try:
            message = editor.ask()
        except Terminated:
            raise
        except KeyboardInterrupt:
            empty = not editor.typed()
            if empty and warned:
                return
            if empty:
                terminal.say("(Ctrl-C once more leaves)")
            warned = empty
            continue
        except EOFError:
            return
        warned = False
        yield message


def _editor(history: History) -> Editor:
    pastes, late = Pastes(), Event()
    session: PromptSession[str] = PromptSession(
        "> ",
        history=TypedHistory(history, pastes.as_typed),
        completer=CommandCompleter(),
        complete_while_typing=False,
        key_bindings=_keys(pastes, late),
    )
    pastes.watch(session)
    keyboard = Keyboard(session.input)

    def ask() -> str:
        pastes.begin()
        late.clear()
        message = pastes.as_typed(session.prompt())
        if late.is_set():
            terminal.say("(stopped)")
            raise KeyboardInterrupt
        return message

    return Editor(ask, lambda: session.default_buffer.text, keyboard.silenced, keyboard.kept)


def _plain() -> Editor:
    """For a terminal that knows no escapes: a line is a message."""
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")
    return Editor(lambda: input("> "))


class CommandCompleter(Completer):
    """Of a command's name, and of what may stand behind it."""

    def __init__(self) -> None:
        self._files = PathCompleter(expanduser=True)

    def get_completions(self, document: Document, event: CompleteEvent) -> Iterable[Completion]:
        text = document.text_before_cursor
        if not text.startswith("/") or text.startswith("//"):
            return
        name, blank, rest = text[1:].partition(" ")
        if not blank:
            yield from _beginning_with(name, COMMANDS)
        elif (command := COMMANDS.get(name)) is None:
            return
        elif command.files:
            yield from self._files.get_completions(Document(rest), event)
        elif " " not in rest:
            yield from _beginning_with(rest, command.words())


def _beginning_with(text: str, words: Iterable[str]) -> Iterator[Completion]:
    for word in words:
        if word.startswith(text):
            yield Completion(word, start_position=-len(text))


def _keys(pastes: Pastes, late: Event) -> KeyBindings:
    """late: set by a Ctrl-C that finds the line sent already, for which the library has only an
    exception in its event loop."""
    bindings = KeyBindings()
    pastes.bind(bindings)

    @bindings.add("<sigint>")
    def _interrupt(event: KeyPressEvent) -> None:
        asked = event.app.future
        if asked is None or asked.done():
            late.set()
        else:
            event.app.exit(exception=KeyboardInterrupt, style="class:aborting")

    @bindings.add("escape", "enter")
    def _new_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    return bindings

"""Messages in, answers out: from a person, or line by line from a pipe."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from typing import TYPE_CHECKING

from colibri.cli import terminal
from colibri.cli.errors import message as message_of
from colibri.cli.interrupt import Terminated
from colibri.cli.prompt import LONGEST_BYTES
from colibri.cli.talk.commands import Leave, obey
from colibri.cli.talk.conversation import Conversation
from colibri.errors import ColibriError, ConfigError

if TYPE_CHECKING:
    from colibri.cli.talk.backend import Backend
    from colibri.cli.talk.editor import Editor


@contextmanager
def seated(
    backend: AbstractContextManager[Backend], history: str | None
) -> Iterator[tuple[Editor, Backend]]:
    """A person at the terminal, and who answers. What is typed while that one is being made ready
    waits for the first prompt."""
    from colibri.cli.talk.editor import editing
    from colibri.cli.talk.history import history as history_of

    with editing(history_of(history, os.environ)) as editor, ExitStack() as stack:
        with editor.kept():
            ready = stack.enter_context(backend)
        yield editor, ready


def talk(conversation: Conversation, editor: Editor) -> None:
    """Until the person leaves; what fails or is stopped does not end the conversation."""
    from colibri.cli.talk.editor import read_messages

    terminal.say("/help tells the commands, Ctrl-D leaves.")
    with closing(read_messages(editor)) as messages:
        for message in messages:
            if not attempt(message, conversation):
                return


def attempt(message: str, conversation: Conversation) -> bool:
    """False: the person leaves."""
    try:
        handle(message, conversation)
    except Leave:
        return False
    except Terminated:
        raise
    except KeyboardInterrupt:
        terminal.say("(stopped)")
    except (ColibriError, MemoryError) as error:
        terminal.say(f"coli: error: {message_of(error)}")
    return True


def answer_lines(conversation: Conversation) -> None:
    """The first error ends it: the lines after may lean on the answer that is missing."""
    try:
        for line in _piped_lines():
            handle(line, conversation)
    except Leave:
        return


def handle(message: str, conversation: Conversation) -> None:
    """Obey a command or send a message."""
    if not message.strip():
        return
    if not message.startswith("/"):
        conversation.ask(message)
    elif message.startswith("//"):
        conversation.ask(message[1:])
    else:
        obey(message, conversation)


def _piped_lines() -> Iterator[str]:
    if sys.stdin is None:
        raise ConfigError("standard input is closed; `coli chat` reads its messages there")
    lines = iter(lambda: sys.stdin.buffer.readline(LONGEST_BYTES + 1), b"")
    for number, line in enumerate(lines, start=1):
        if len(line) > LONGEST_BYTES:
            raise ConfigError(f"standard input, line {number}: too long")
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
        except UnicodeDecodeError:
            raise ConfigError(f"standard input, line {number}: not UTF-8") from None

"""`coli chat`: a conversation in the terminal, or one message a line from a pipe."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import click

from colibri.cli import terminal
from colibri.cli.conversation import Conversation
from colibri.cli.loading import check_speaks, load
from colibri.cli.options import (
    chat_options,
    engine_options,
    sampling_options,
    take_chat,
    take_config,
    take_sampling,
    with_given,
)
from colibri.cli.prompt import LONGEST_BYTES, valid_text
from colibri.errors import ColibriError, ConfigError

HELP = (
    "/stats  what the last answer cost",
    "/reset  forget the conversation",
    "/exit   leave (also Ctrl-D)",
    "Ctrl-C stops an answer; Alt-Enter starts a new line; //text sends a message with a slash.",
)


@click.command("chat")
@click.option("--system", metavar="TEXT", help="System message.")
@click.option("-q", "--quiet", is_flag=True, help="No facts on stderr, only warnings and errors.")
@chat_options
@sampling_options
@engine_options
def command(system: str | None, quiet: bool, **flags: Any) -> None:
    """Talk with a model; /help in the conversation tells the commands.

    With input from a pipe each line is one message, and only the answers are printed.
    """
    config, given, options = take_config(flags), take_sampling(flags), take_chat(flags)
    system = system and valid_text(system, "--system")
    interactive = sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()
    check_speaks(config.model, chat=True)
    with load(config, quiet=quiet or not interactive).llm as llm:
        params = with_given(llm.default_params, given)
        conversation = Conversation(
            llm, params, system, quiet=quiet or not interactive, options=options
        )
        if interactive:
            _talk(conversation)
        else:
            _answer_lines(conversation)


def _answer_lines(conversation: Conversation) -> None:
    """The first error ends it: the lines after may lean on the answer that is missing."""
    for line in _piped_lines():
        if line.strip() and not _handle(line, conversation, conversation.ask):
            return


def _piped_lines() -> Iterator[str]:
    if sys.stdin is None:
        raise ConfigError("standard input is closed; `coli chat` reads its messages there")
    lines = iter(lambda: sys.stdin.buffer.readline(LONGEST_BYTES + 1), b"")
    for number, line in enumerate(lines, start=1):
        if len(line) > LONGEST_BYTES:
            raise ConfigError(f"standard input, line {number}: too long")
        try:
            yield line.decode("utf-8").rstrip("\r\n")
        except UnicodeDecodeError:
            raise ConfigError(f"standard input, line {number}: not UTF-8") from None


def _talk(conversation: Conversation) -> None:
    from colibri.cli.editor import read_messages

    terminal.say("/help tells the commands, Ctrl-D leaves.")
    for message in read_messages():
        if message.strip() and not _handle(message, conversation, lambda m: _try(conversation, m)):
            return


def _try(conversation: Conversation, message: str) -> None:
    """One turn that may fail or be stopped without ending the conversation."""
    try:
        conversation.ask(message)
    except KeyboardInterrupt:
        terminal.say("(stopped)")
    except ColibriError as error:
        terminal.say(f"coli: error: {error}")


def _handle(message: str, conversation: Conversation, ask: Callable[[str], None]) -> bool:
    """Obey a command or send a message; False: leave."""
    if not message.startswith("/"):
        ask(message)
    elif message.startswith("//"):
        ask(message[1:])
    elif message.strip() == "/exit":
        return False
    else:
        _obey(message.strip(), conversation)
    return True


def _obey(name: str, conversation: Conversation) -> None:
    if name == "/reset":
        conversation.reset()
        terminal.say("(forgotten)")
    elif name == "/stats":
        _say_all(conversation.last_turn or ["no answer yet"])
    elif name == "/help":
        _say_all(HELP)
    else:
        terminal.say(f"unknown command {name[:40]}; /help tells them")


def _say_all(lines: tuple[str, ...] | list[str]) -> None:
    for line in lines:
        terminal.say(line)

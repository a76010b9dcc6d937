"""`coli chat`: a conversation in the terminal, or one message a line from a pipe."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from colibri.cli import terminal
from colibri.cli.grouping import Grouped
from colibri.cli.loading import check_speaks, load
from colibri.cli.options import (
    chat_options,
    engine_options,
    sampling_options,
    take_chat,
    take_config,
    take_sampling,
    verbose_option,
)
from colibri.cli.prompt import valid_text
from colibri.cli.talk.backend import Backend, Wishes
from colibri.cli.talk.conversation import Conversation
from colibri.cli.talk.loop import answer_lines, seated, talk
from colibri.cli.talk.screen import Look
from colibri.config import SETTINGS, key_for
from colibri.errors import ConfigError


@click.command("chat", cls=Grouped)
@click.option(
    "--attach",
    metavar="URL",
    help="Talk with the model of a server there (`coli serve`, or another that speaks OpenAI's "
    "API); none is loaded here.",
)
@click.option(
    "--api-key",
    metavar="KEY",
    help="The server's key; better in COLI_API_KEY, which other users do not see.",
)
@click.option("--system", metavar="TEXT", help="System message.")
@click.option(
    "--history",
    metavar="FILE|off",
    help="Where the lines you type are kept (COLI_CHAT_HISTORY); default: a private file in your "
    "state directory.",
)
@click.option("--plain", is_flag=True, help="Answers as they are: no styles, no wrapping.")
@click.option("-q", "--quiet", is_flag=True, help="No facts on stderr, only warnings and errors.")
@verbose_option
@chat_options
@sampling_options
@engine_options
def command(
    attach: str | None,
    api_key: str | None,
    system: str | None,
    history: str | None,
    plain: bool,
    quiet: bool,
    verbose: bool,
    **flags: Any,
) -> None:
    """Talk with a model; /help in the conversation tells the commands.

    With input from a pipe each line is one message, and only the answers are printed.
    """
    if attach is not None:
        _check_nothing_to_load(flags)
    elif api_key is not None:
        raise ConfigError("--api-key is for --attach")
    wishes = Wishes(take_sampling(flags), take_chat(flags))
    system = system and valid_text(system, "--system")
    interactive = sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()
    quiet = quiet or not interactive
    answers = _backend(attach, api_key, flags, quiet, verbose)
    if not interactive:
        with answers as backend:
            answer_lines(Conversation(backend, wishes, system, quiet=quiet))
        return
    history = history or os.environ.get("COLI_CHAT_HISTORY") or None
    with seated(answers, history) as (editor, backend):
        look = _look(plain)
        talk(Conversation(backend, wishes, system, quiet=quiet, look=look), editor)


def _look(plain: bool) -> Look:
    if plain:
        return Look(styled=False)
    out = sys.stdout
    return Look(styled=terminal.has_colour(out), wrapped=terminal.is_terminal(out))


@contextmanager
def _backend(
    attach: str | None, api_key: str | None, flags: dict[str, Any], quiet: bool, verbose: bool
) -> Iterator[Backend]:
    if attach is not None:
        yield _attached(attach, api_key, quiet=quiet)
        return
    from colibri.cli.talk.local import Local

    config = take_config(flags)
    check_speaks(config.model, chat=True)
    with load(config, quiet=quiet, verbose=verbose).llm as llm:
        yield Local(llm)


def _attached(url: str, api_key: str | None, *, quiet: bool) -> Backend:
    from colibri.cli.talk.attached import Attached
    from colibri.cli.talk.http import Client

    backend = Attached(Client(url, key_for(api_key, os.environ)))
    if not quiet:
        terminal.say(backend.line)
    return backend


def _check_nothing_to_load(flags: dict[str, Any]) -> None:
    for setting in SETTINGS:
        if flags[setting.field] is not None:
            raise ConfigError(f"{setting.flag} does not go with --attach: the server has its own")

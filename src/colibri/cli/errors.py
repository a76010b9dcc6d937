"""Errors as a person sees them: one line and an exit code. The only broad `except` is in app.py."""

from __future__ import annotations

import os

import click

from colibri import errors
from colibri.cli import terminal
from colibri.cli.interrupt import TERMINATED, Terminated

INTERRUPTED = 130  # as a shell reports a program that SIGINT ended
WANTING = 7  # a command that examines found what must not be
NOTHING_SAVED = 8  # `tune` found nothing that is worth keeping
BROKEN_PIPE = 141  # as a shell reports a program that SIGPIPE ended

# The first class that matches decides, so a subclass stands before its base.
EXIT_CODES: tuple[tuple[type[BaseException], int], ...] = (
    (Terminated, TERMINATED),
    (errors.Cancelled, INTERRUPTED),
    (KeyboardInterrupt, INTERRUPTED),
    (errors.ConfigError, 2),
    (errors.GrammarError, 2),
    (errors.UnsupportedModelError, 3),
    (errors.ReadError, 6),
    (errors.ContainerError, 4),
    (errors.TokenizerError, 4),
    (errors.CapacityError, 5),
    (MemoryError, 5),
    (click.UsageError, 2),
)


def exit_code(error: BaseException) -> int:
    return exit_code_of(type(error))


def exit_code_of(kind: type[BaseException]) -> int:
    return next((code for base, code in EXIT_CODES if issubclass(kind, base)), 1)


def message(error: BaseException) -> str:
    """The text after "coli: error: "; a few errors of our own have lines of detail."""
    text = _text(error)
    if isinstance(error, errors.ColibriError) and (origin := _origin(text)) is not None:
        text += f" ({origin} says so)"
    return terminal.harmless(text)


def _origin(text: str) -> str | None:
    from colibri.config.origins import origin_of

    try:
        return origin_of(text, os.environ)
    except errors.ConfigError:  # then it is most likely what the text is about
        return None


def _text(error: BaseException) -> str:
    match error:
        case click.UsageError():
            return error.format_message() + _usage_hint(error)
        case click.ClickException():
            return error.format_message()
        case Terminated():
            return "ended by SIGTERM"
        case errors.Cancelled() | KeyboardInterrupt():
            return str(error) or "stopped"
        case errors.ColibriError():
            return str(error)
        case MemoryError():
            return "the machine refused more memory; lower --ram, --context or --cache-experts"
        case OSError():
            return f"{error.strerror or error}" + (f": {error.filename}" if error.filename else "")
        case _:
            what = " ".join(f"{type(error).__name__}: {error}".split())
            return f"internal error ({what}); COLI_DEBUG=1 shows where, please report it"


def _usage_hint(error: click.UsageError) -> str:
    if error.ctx is None:
        return ""
    return f" (see `{error.ctx.command_path} --help`)"

"""Where output goes: answers to stdout, facts to stderr, whatever the encoding, pipes included."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from typing import Any, TextIO

# What a terminal would obey rather than show: C0 but tab and newline, DEL, C1.
_CONTROLS = {code: "\N{REPLACEMENT CHARACTER}" for code in (*range(32), *range(127, 160))}
_CONTROLS = {code: mark for code, mark in _CONTROLS.items() if chr(code) not in "\t\n"}


def prepare_streams() -> None:
    """A character that the terminal's encoding lacks is replaced; a closed stream is no error."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # started with `>&-`
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if stream is not None:
            _make_blocking(stream)
    for method in ("write", "flush"):
        setattr(sys.stdout, method, _naming_stdout(getattr(sys.stdout, method)))


def _naming_stdout(method: Callable[..., Any]) -> Callable[..., Any]:
    """Whoever writes to it, a failure says that it was this and no file."""

    def named(*args: Any) -> Any:
        try:
            return method(*args)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OSError(error.errno, error.strerror, "standard output") from None

    return named


def _make_blocking(stream: TextIO) -> None:
    """Whoever started us may have left it otherwise: a read would stop early, a write fail."""
    try:
        os.set_blocking(stream.fileno(), True)
    except (OSError, ValueError):  # a stream without a descriptor, as tests use
        return


def is_terminal(stream: TextIO) -> bool:
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def has_colour(stream: TextIO) -> bool:
    """NO_COLOR is what people set who want none anywhere (no-color.org)."""
    return is_terminal(stream) and not os.environ.get("NO_COLOR")


def columns(stream: TextIO) -> int:
    """Of a terminal, as wide as it is now; 0: it is none, or does not tell."""
    try:
        return os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        return 0


def write_answer(text: str) -> None:
    """Text of the model to stdout at once; a terminal is not handed control characters."""
    write_shown(harmless(text) if sys.stdout.isatty() else text)


def write_shown(text: str) -> None:
    """Text that is harmless, styles included, to stdout at once."""
    sys.stdout.write(text)
    sys.stdout.flush()


def write_aside(text: str) -> None:
    """Text of the model that is not its answer, to stderr at once; dim on a terminal."""
    shown = harmless(text)
    _write_err(f"\x1b[2m{shown}\x1b[22m" if has_colour(sys.stderr) else shown)


def end_aside() -> None:
    """A blank line between it and what follows."""
    _write_err("\n\n")


def harmless(text: str) -> str:
    """Text that a terminal shows and does not obey."""
    return text.translate(_CONTROLS)


def say(line: str) -> None:
    """One line to stderr, harmless: the name of a file may be anything."""
    _write_err(harmless(line) + "\n")


def say_fact(line: str) -> None:
    """One line to stderr that nobody has to read; dim on a terminal."""
    text = harmless(line)
    _write_err(f"\x1b[2m{text}\x1b[22m\n" if has_colour(sys.stderr) else f"{text}\n")


def _write_err(text: str) -> None:
    """Nobody reading it is no reason to stop."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        _silence(sys.stderr)


def flush() -> None:
    sys.stdout.flush()


def flush_quietly() -> None:
    try:
        sys.stdout.flush()
    except OSError:
        abandon_output()


def abandon_output() -> None:
    """After a failed write: drop what is buffered, so that the exit does not try it again."""
    _silence(sys.stdout)


def _silence(stream: TextIO) -> None:
    try:
        descriptor = stream.fileno()
    except (OSError, ValueError):  # a stream without a descriptor, as tests use
        return
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, descriptor)
    os.close(null)

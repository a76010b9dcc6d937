"""The prompt as the user gave it: an argument, standard input, or token ids."""

from __future__ import annotations

import os
import re
import sys

from colibri.errors import ConfigError

LONGEST_BYTES = 256 << 20  # of a prompt: something that never ends is not read for ever


def read_prompt(argument: str | None) -> str:
    """The argument; with "-", or without one when something is piped in, standard input."""
    if argument is None and sys.stdin is not None and not sys.stdin.isatty():
        argument = "-"
    if argument is None:
        raise ConfigError("no prompt; give it as an argument, or pipe it in")
    text = _standard_input() if argument == "-" else argument
    if not text:
        raise ConfigError("the prompt is empty")
    return valid_text(text, "the prompt")


def valid_text(text: str, what: str) -> str:
    """Bytes of an argument that the locale could not decode stand as surrogates; most often they
    are UTF-8."""
    if not any("\ud800" <= char <= "\udfff" for char in text):
        return text
    try:
        return os.fsencode(text).decode("utf-8")
    except UnicodeError:
        raise ConfigError(f"{what} is not valid UTF-8") from None


def _standard_input() -> str:
    """All of it, without the one newline that `echo` adds."""
    if sys.stdin is None:
        raise ConfigError("standard input is closed; give the prompt as an argument")
    data = sys.stdin.buffer.read(LONGEST_BYTES + 1)
    if len(data) > LONGEST_BYTES:
        raise ConfigError(f"standard input holds more than {LONGEST_BYTES >> 20} MiB")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"standard input is not UTF-8 (at byte {error.start})") from None
    return text.removesuffix("\n")


def parse_ids(text: str) -> list[int]:
    """Token ids separated by spaces, commas or newlines."""
    words = [word for word in re.split(r"[\s,]+", text) if word]
    for word in words:
        if re.fullmatch(r"[0-9]{1,9}", word, re.ASCII) is None:
            raise ConfigError(f"--ids: {word[:40]!r} is not a token id")
    if not words:
        raise ConfigError("--ids: no token ids given")
    return [int(word) for word in words]

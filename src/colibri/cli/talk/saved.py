"""A conversation in a file: JSON to go on with, or markdown to read."""

from __future__ import annotations

import json
import os
from pathlib import Path

from colibri.cli.talk.backend import Message
from colibri.container.jsonfile import read_json
from colibri.container.output import check_folder, write_text
from colibri.errors import ColibriError, ConfigError

_FORMAT, _VERSION = "colibri-chat", 1
_TITLES = {"system": "System", "user": "Question", "assistant": "Answer"}
_TEXTS = ("content", "reasoning_content")


def save(path: Path, messages: list[Message]) -> None:
    """Markdown where the name ends in .md, else JSON. Never replaces a file: ConfigError."""
    check_folder("/save", path)
    text = _markdown(messages) if path.suffix == ".md" else _json(messages)
    try:  # claims the name, whoever else wants it
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        raise ConfigError(f"{path}: is there already; give another name") from None
    except (OSError, ValueError) as error:
        said = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"{path}: cannot write it: {said}") from None
    try:
        write_text(path, text)
    except (ColibriError, OSError):
        path.unlink(missing_ok=True)
        raise


def load(path: Path) -> list[Message]:
    """Raises ConfigError, ContainerError."""
    if path.suffix == ".md":
        raise ConfigError(f"{path}: markdown is for reading; /load takes what /save wrote as JSON")
    document = read_json(path)
    if document.get("format") != _FORMAT:
        raise ConfigError(f"{path}: is no conversation that /save wrote")
    if document.get("version") != _VERSION:
        raise ConfigError(
            f"{path}: is of version {document.get('version')!r}; this program reads {_VERSION}"
        )
    messages = document.get("messages")
    if not isinstance(messages, list):
        raise ConfigError(f"{path}: has no list of messages")
    return [_checked(message, f"{path}: messages[{at}]") for at, message in enumerate(messages)]


def _checked(message: object, where: str) -> Message:
    if not isinstance(message, dict) or message.get("role") not in _TITLES:
        raise ConfigError(f"{where}: no message of {', '.join(_TITLES)}")
    if strays := message.keys() - {"role", *_TEXTS}:
        raise ConfigError(f"{where}: unknown key {min(strays)!r}")
    if not isinstance(message.get("content"), str):
        raise ConfigError(f"{where}: its content is no text")
    if not isinstance(message.get("reasoning_content", ""), str):
        raise ConfigError(f"{where}: its reasoning_content is no text")
    return dict(message)


def _json(messages: list[Message]) -> str:
    document = {"format": _FORMAT, "version": _VERSION, "messages": messages}
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _markdown(messages: list[Message]) -> str:
    parts = [f"## {_TITLES[message['role']]}\n\n{message['content']}\n" for message in messages]
    return "\n".join(parts)

"""Where things lie on the server's machine is none of a client's business: an answer names files
without their folders. The log has the whole paths."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterable
from typing import TYPE_CHECKING

from colibri.config import state_folder

if TYPE_CHECKING:
    from colibri.llm import LLM


def places(llm: LLM | None) -> tuple[str, ...]:
    """Folders whose paths no answer has, the innermost first."""
    folders = [os.path.expanduser("~"), tempfile.gettempdir(), os.getcwd()]
    if llm is not None:
        folders += [str(llm.container.path), *llm.config.mirror]
        folders += [] if llm.usage.path is None else [str(llm.usage.path.parent)]
    state = state_folder(os.environ)
    folders += [] if state is None else [str(state)]
    known = {form for folder in folders for form in _forms(folder)} - {"/", ".", ""}
    return tuple(sorted(known, key=len, reverse=True))


def without_places(text: str, folders: Iterable[str]) -> str:
    for folder in folders:
        if folder in text:
            path = rf"(?<![\w./-]){re.escape(folder)}(?:/[^\s:'\",;()]*|(?![\w.-]))"
            text = re.sub(path, _name, text)
    return text


def _forms(folder: str) -> Iterable[str]:
    """As it was given, and as others may tell it."""
    return folder.rstrip("/"), os.path.abspath(folder), os.path.realpath(folder)


def _name(path: re.Match[str]) -> str:
    return path[0].rstrip("/").rpartition("/")[2]

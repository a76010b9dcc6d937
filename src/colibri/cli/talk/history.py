"""What a person typed, in a file that nobody else may read; it is never sent anywhere by itself."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from prompt_toolkit.history import FileHistory, History, InMemoryHistory

from colibri.cli import terminal
from colibri.config import state_folder
from colibri.container.output import check_folder
from colibri.errors import ConfigError

OFF = "off"
_MOST_BYTES = 1 << 20  # beyond it the older half is dropped


def history(wish: str | None, environ: Mapping[str, str]) -> History:
    """wish: a file or "off"; None: the user's own. Raises ConfigError for a file that was asked for
    and cannot be had; the user's own is done without."""
    path = _path(wish, environ)
    if path is None:
        return InMemoryHistory()
    if wish is None:  # the program's own place
        with suppress(OSError, ValueError):  # _prepare will say it
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    else:
        check_folder("--history", path)
    try:
        _prepare(path)
    except (OSError, ValueError) as error:
        said = f"{path}: no history there: {getattr(error, 'strerror', None) or error}"
        if wish is not None:
            raise ConfigError(f"--history {said}") from None
        terminal.say(f"coli: warning: {said}")
        return InMemoryHistory()
    return PrivateHistory(path)


class PrivateHistory(FileHistory):
    """A disk that is full ends the writing, not the conversation."""

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        self._path = path
        self._writes = True

    def load_history_strings(self) -> Iterable[str]:
        try:
            return list(super().load_history_strings())
        except OSError:
            return []

    def store_string(self, string: str) -> None:
        if not self._writes:
            return
        try:
            super().store_string(string.encode("utf-8", "replace").decode())
        except OSError as error:
            self._writes = False
            terminal.say(f"coli: warning: {self._path}: {error.strerror}; no more history")


def _path(wish: str | None, environ: Mapping[str, str]) -> Path | None:
    if wish is not None:
        return None if wish == OFF else Path(wish).expanduser()
    state = state_folder(environ)
    return state and state / "chat-history"


def _prepare(path: Path) -> None:
    """There, a plain file, private, and of a size that is read at once."""
    # Not to hang where it is a pipe.
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_APPEND | os.O_NONBLOCK, 0o600)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise ValueError("is no plain file")
        os.fchmod(descriptor, 0o600)
    finally:
        os.close(descriptor)
    if found.st_size > _MOST_BYTES:
        _halve(path)


def _halve(path: Path) -> None:
    """A crash leaves the old or the new one. An entry begins with a line of its time."""
    data = path.read_bytes()[-_MOST_BYTES // 2 :]
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    descriptor = os.open(part, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data[max(0, data.find(b"\n# ")) :])
        file.flush()
        os.fsync(descriptor)
    os.replace(part, path)

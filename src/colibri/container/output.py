"""Files that a user named for results: replaced whole, or left as they were.

Their directory has to be there: a name mistyped is said at once, and no directory is made for it.
A link stays a link: what it names is replaced. A device or a pipe is written to, never replaced.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from colibri.container.files import shown
from colibri.container.writer import naming_the_file, write_file
from colibri.errors import ConfigError

_OWN = (1, 2)  # stdout and stderr


def check_writable(flag: str, path: Path) -> None:
    """Refuse before the work rather than after it. Raises ConfigError."""
    _check(flag, path, _obstacle(path))


def check_folder(flag: str, path: Path) -> None:
    """Only that the directory is there, for a file that may be read and never written. Raises
    ConfigError."""
    _check(flag, path, _missing(path))


def _check(flag: str, path: Path, obstacle: str) -> None:
    if obstacle:
        raise ConfigError(f"{flag}: cannot write a file {shown(str(path))}: {obstacle}")


def _obstacle(path: Path) -> str:
    if _is_stream(path):
        return "" if os.access(path, os.W_OK) else "it may not be written to"
    if os.path.isdir(path):
        return "there is a directory of that name"
    if missing := _missing(path):
        return missing
    folder = _target(path).parent
    return "" if os.access(folder, os.W_OK) else f"{shown(str(folder))} may not be written to"


def _missing(path: Path) -> str:
    folder = _target(path).parent
    if os.path.isdir(folder):
        return ""
    return f"there is no directory {shown(str(folder))}; make it, or give another name"


def write_text(path: Path, text: str) -> None:
    write_bytes(path, text.encode())


def write_bytes(path: Path, data: bytes) -> None:
    """Raises ContainerError, CapacityError; then the file is as it was."""
    if not _is_stream(path):
        write_file(_target(path), [data], len(data))
        return
    # Appended: what is behind /dev/stdout may be a file that has the output so far.
    with naming_the_file(path), open(path, "ab") as stream:
        stream.write(data)


def _target(path: Path) -> Path:
    return Path(os.path.realpath(path))


def _is_stream(path: Path) -> bool:
    """Whether this is a device or a pipe, or where this process's own output goes."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return False
    if stat.S_ISREG(found.st_mode):
        return any(_is_open_as(fd, found) for fd in _OWN)
    return not stat.S_ISDIR(found.st_mode)


def _is_open_as(fd: int, found: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), found)
    except OSError:  # closed
        return False

"""Other processes of this machine that run colibri: what they hold is not free, and comes back when
they end.

A process is known by the native module in its memory map, so a program that uses the library counts
as `coli` does. Processes of other users, whose maps may not be read, are not seen.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from colibri.hardware.probe import resident_bytes

_LONGEST = 100  # characters of a command that are shown
_MODULE = b"/colibri/_native."


@dataclass(frozen=True)
class Neighbour:
    pid: int
    rss_bytes: int
    command: str

    @property
    def brief(self) -> str:
        return brief(self.command)


def brief(command: str) -> str:
    """The program without its directories, and of what follows the first words, never half of one:
    what a person has to see of a command to know it."""
    program, *words = command.split(" ")
    said = program.rsplit("/", 1)[-1] or program
    for word in words:
        if len(said) + 1 + len(word) > _LONGEST:
            return f"{said} ..."
        said += f" {word}"
    return said


def neighbours(root: Path = Path("/")) -> tuple[Neighbour, ...]:
    """Those with a model or about to load one, by process number; not this process, nor what it
    has started. root: where /proc is, for tests."""
    try:
        pids = sorted(int(name) for name in os.listdir(root / "proc") if name.isdecimal())
    except OSError:
        return ()
    found = (_neighbour(pid, root) for pid in pids if pid != os.getpid())
    return tuple(neighbour for neighbour in found if neighbour is not None)


def _neighbour(pid: int, root: Path) -> Neighbour | None:
    folder = root / "proc" / str(pid)
    if _MODULE not in _bytes(folder / "maps") or _parent(folder) == os.getpid():
        return None
    words = _bytes(folder / "cmdline").rstrip(b"\0").split(b"\0")
    rss = resident_bytes(pid, root)
    return Neighbour(pid, rss, _line(b" ".join(words))) if rss else None


def _line(command: bytes) -> str:
    """One line, and nothing in it that a terminal obeys: any program may name itself anything."""
    text = command.decode("utf-8", "replace")
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def _parent(folder: Path) -> int | None:
    # The name in brackets may hold spaces and brackets itself.
    fields = _bytes(folder / "stat").rpartition(b")")[2].split()
    return int(fields[1]) if len(fields) > 1 and fields[1].isdigit() else None


def _bytes(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:  # it has ended, or is another user's
        return b""

"""A program in a terminal of its own, and a person who types there."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from typing import Any

ROWS, COLUMNS = 40, 200
_SECONDS = 30.0
# The first terminal that the leader of a session opens is the one whose Ctrl-C it gets.
_START = """
import os, sys
terminal = os.open(sys.argv.pop(1), os.O_RDWR)
for descriptor in (0, 1, 2):
    os.dup2(terminal, descriptor)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""
_COLI = "from colibri.cli import main; main()"
_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07]*\x07|\x1b[()][0-9A-B]|\x1b[=>78]")

_EDITING = "\x1b[?25l\x1b[0m"  # the editor draws itself anew, as it does at each prompt
_PROMPT = "\ue000"
_TAKEN_BACK = re.compile(r"(?<=\n)[^\n]*\r\x1b\[K(?:(?:prompt \d|thinking: )[^\r\n]*\Z)?")


def without_styles(text: str) -> str:
    """As it is read in the end: lines that were taken back are gone."""
    text = _ESCAPES.sub("", _TAKEN_BACK.sub("\r", text.replace(_EDITING, _PROMPT)))
    return text.replace("\r", "")


class Terminal:
    """raw: all that the program has written so far, escapes included. mode: how it was found."""

    def __init__(self, process: subprocess.Popen[bytes], master: int) -> None:
        self.process, self._master = process, master
        self.mode = self.mode_now()
        self.raw = ""
        self._bytes = b""
        self._seen = 0  # characters of `text` that an earlier wait has passed

    @property
    def text(self) -> str:
        return without_styles(self.raw)

    def resize(self, columns: int) -> None:
        _resize(self._master, columns)

    def mode_now(self) -> tuple[int, int]:
        """Echo, lines and the like."""
        mode: list[Any] = termios.tcgetattr(self._master)
        return mode[0], mode[3]

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def say(self, line: str) -> None:
        self.type(f"{line}\r")

    def paste(self, text: str) -> None:
        """As terminals do that tell pastes from keys."""
        self.type(f"\x1b[200~{text}\x1b[201~")

    def wait(self, pattern: str) -> re.Match[str]:
        """For text that comes after what an earlier call waited for."""
        until = time.monotonic() + _SECONDS
        while not (found := re.compile(pattern, re.DOTALL).search(self.text, self._seen)):
            lives = self.process.poll() is None and time.monotonic() < until
            assert lives, f"{pattern!r} is not in {self.text[self._seen :]!r}"
            self._read(0.2)
        self._seen = found.end()
        return found

    def ready(self) -> str:
        """Until the next prompt; what came before it."""
        begin = self._seen
        at = self.wait(rf"\n?{_PROMPT}|\n> ").start()
        return self.text[begin:at]

    def end(self) -> int:
        until = time.monotonic() + _SECONDS
        while self.process.poll() is None:
            assert time.monotonic() < until, f"does not end: {self.text[self._seen :]!r}"
            self._read(0.1)
        self._read(0.1)
        return self.process.returncode

    def _read(self, seconds: float) -> None:
        if not select.select([self._master], [], [], seconds)[0]:
            return
        with contextlib.suppress(OSError):  # the other side is closed
            self._bytes += os.read(self._master, 65536)
        self.raw = self._bytes.decode(errors="ignore")


@contextlib.contextmanager
def terminal(*flags: str, first: str = "", **environ: Any) -> Iterator[Terminal]:
    """`coli` with these flags. Nothing of the caller's settings but what is given. first: Python
    that runs before it."""
    master, slave = os.openpty()
    _resize(slave, COLUMNS)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("COLI_")}
    # Nobody answers here when it asks where the cursor is.
    kept |= {"TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1", "COLI_USAGE": "off", **environ}
    process = subprocess.Popen(
        [sys.executable, "-c", _START, os.ttyname(slave), "-c", f"{first}\n{_COLI}", *flags],
        env=kept,
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    try:
        yield Terminal(process, master)
    finally:
        process.kill()
        process.wait()
        os.close(slave)
        os.close(master)


def _resize(descriptor: int, columns: int) -> None:
    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, columns, 0, 0))

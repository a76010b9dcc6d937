"""The keyboard while no message is asked for: nothing is echoed into an answer, nothing is lost."""

from __future__ import annotations

import os
import select
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Thread
from typing import Any

from prompt_toolkit.input import Input
from prompt_toolkit.input.typeahead import store_typeahead
from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.keys import Keys

from colibri.cli import terminal
from colibri.cli.echo import LFLAG, suspending

_MARK_PASTES, _MARK_NO_PASTES = "\x1b[?2004h", "\x1b[?2004l"
_IFLAG, _CC = 0, 6  # places in what tcgetattr() returns


class Keyboard:
    """Of a terminal that the editor reads from too, by turns. The mode that it finds is the one
    that it leaves, and the one that a shell sees while the program is suspended."""

    def __init__(self, keys: Input) -> None:
        self._keys = keys

    @contextmanager
    def silenced(self) -> Iterator[None]:
        """Keys are not echoed and come one by one; those that interrupt or suspend still do."""
        self._found = termios.tcgetattr(self._keys.fileno())
        self._by_lines = bool(self._found[LFLAG] & termios.ICANON)
        try:
            self._silence()
            yield
        finally:
            self._restore()

    @contextmanager
    def kept(self) -> Iterator[None]:
        """What is typed and pasted meanwhile comes to the next prompt, as if typed there."""
        terminal.write_shown(_MARK_PASTES)
        ended, end = os.pipe()
        pressed: list[KeyPress] = []
        reader = Thread(target=self._read, args=(pressed, ended), name="keyboard", daemon=True)
        reader.start()
        try:
            with suspending(self._restore, self._resume):
                yield
        finally:
            os.close(end)
            reader.join()
            os.close(ended)
            store_typeahead(self._keys, self._as_meant(pressed))

    def _read(self, pressed: list[KeyPress], ended: int) -> None:
        keys = self._keys.fileno()
        poll = select.poll()
        poll.register(keys, select.POLLIN)
        poll.register(ended, select.POLLIN)
        while not self._keys.closed:
            ready = dict(poll.poll())
            if (
                ready.get(keys) != select.POLLIN or ended in ready
            ):  # the terminal is gone, or enough
                return
            pressed += self._keys.read_keys()

    def _as_meant(self, pressed: list[KeyPress]) -> list[KeyPress]:
        """A terminal that still read by lines kept an early Ctrl-D as a NUL."""
        if not self._by_lines:
            return pressed
        self._by_lines = False
        ctrl_d = KeyPress(Keys.ControlD, "\x04")
        return [ctrl_d if press.key == Keys.ControlAt else press for press in pressed]

    def _silence(self) -> None:
        mode: list[Any] = termios.tcgetattr(self._keys.fileno())
        mode[LFLAG] &= ~(termios.ECHO | termios.ICANON | termios.IEXTEN)
        mode[LFLAG] |= termios.NOFLSH  # Ctrl-C does not take what was typed before it
        mode[_IFLAG] &= ~(termios.ICRNL | termios.INLCR | termios.IGNCR)
        mode[_CC][termios.VMIN], mode[_CC][termios.VTIME] = 1, 0
        termios.tcsetattr(self._keys.fileno(), termios.TCSANOW, mode)

    def _restore(self) -> None:
        with suppress(termios.error):  # the terminal is gone
            termios.tcsetattr(self._keys.fileno(), termios.TCSANOW, self._found)
        with suppress(OSError):
            terminal.write_shown(_MARK_NO_PASTES)

    def _resume(self) -> None:
        self._silence()
        terminal.write_shown(_MARK_PASTES)

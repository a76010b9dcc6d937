"""Text as it streams, with a line's end in place of the blanks where a word would not fit.

A word is held back until it is whole. Wide characters (Chinese, Japanese, Korean) are words of
their own, but for closing marks, which stay with what they close.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, field

from prompt_toolkit.utils import get_cwidth

from colibri.cli.talk.markdown import painted

_TAB = 8
_JOINS_WHAT_FOLLOWS = ("Ps", "Pi", "Cf")  # opening marks, and joiners of emoji
_JOINS_WHAT_WENT_BEFORE = ("Pe", "Pf", "Po", "Mn", "Me", "Cf", "Sk")  # closing marks and accents

Piece = tuple[str, str]  # characters and their style


@dataclass
class Wrapper:
    """width: cells of a row, asked for at each word, since terminals are resized; 0: not known, and
    nothing is wrapped."""

    width: Callable[[], int]
    _column: int = 0  # cells of the row that are taken
    _begun: bool = False  # there is a word in the row
    _glued: bool = False  # the word goes on one that was too long to be held back
    _blanks: list[Piece] = field(default_factory=list)
    _word: list[Piece] = field(default_factory=list)
    _out: list[Piece] = field(default_factory=list)

    def feed(self, text: str, style: str = "", *, as_it_is: bool = False) -> str:
        """What can be shown now. as_it_is: lines that are not wrapped."""
        if as_it_is:
            self._place_all()
        for char in text:
            if char == "\n":
                self._end_line()
            elif as_it_is:
                self._out.append((char, style))
            elif char in " \t":
                self._place()
                self._blanks.append((char, style))
                self._glued = False
            else:
                self._add(char, style)
        return self._taken()

    def finish(self) -> str:
        """What was held back."""
        self._place_all()
        return self._taken()

    def _add(self, char: str, style: str) -> None:
        if self._word and _may_part(self._word[-1][0], char):
            self._place()
        self._word.append((char, style))
        if 0 < self.width() <= _cells(self._word):
            self._place()
            self._glued = True

    def _place(self) -> None:
        """The blanks and the word, in this row or the next."""
        if not self._word:
            return
        if not self._glued and self._begun and not self._fits():
            self._blanks.clear()
            self._out.append(("\n", ""))
            self._column = 0
        self._place_blanks()
        self._out += self._word
        self._column += _cells(self._word)
        self._word.clear()
        self._begun, self._glued = True, False

    def _fits(self) -> bool:
        width = self.width()
        if not width:
            return True
        if self._column > width:  # the terminal has broken the row itself
            self._column = (self._column - 1) % width + 1
        return self._after_blanks() + _cells(self._word) <= width

    def _after_blanks(self) -> int:
        column = self._column
        for char, _ in self._blanks:
            column += _TAB - column % _TAB if char == "\t" else 1
        return column

    def _place_blanks(self) -> None:
        self._column = self._after_blanks()
        self._out += self._blanks
        self._blanks.clear()

    def _place_all(self) -> None:
        self._place()
        if 0 < self.width() < self._after_blanks():
            self._blanks.clear()  # they would begin a row of their own
        self._place_blanks()

    def _end_line(self) -> None:
        self._place_all()
        self._out.append(("\n", ""))
        self._column, self._begun, self._glued = 0, False, False

    def _taken(self) -> str:
        runs: list[list[str]] = []
        for char, style in self._out:
            if runs and runs[-1][1] == style:
                runs[-1][0] += char
            else:
                runs.append([char, style])
        self._out.clear()
        return "".join(painted(text, style) for text, style in runs)


def _cells(word: list[Piece]) -> int:
    return sum(get_cwidth(char) for char, _ in word)


def _may_part(before: str, after: str) -> bool:
    """Whether a row may end between these characters of a word."""
    if get_cwidth(before) < 2 and get_cwidth(after) < 2:
        return False
    return (
        unicodedata.category(before) not in _JOINS_WHAT_FOLLOWS
        and unicodedata.category(after) not in _JOINS_WHAT_WENT_BEFORE
    )

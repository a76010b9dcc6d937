"""Markdown as it streams: styled, and no character of it changed, moved or left out. With a wrapper
lines are broken at words, but for those of code.

A line's kind is known once its first characters are, so that little is held back; styles end with
their line. What is shown without its styles is the text that came.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from colibri.cli.talk.wrap import Wrapper

_RESET = "\x1b[0m"
_BOLD, _DIM, _ITALIC, _CODE = "1", "2", "3", "36"
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_HEADING = re.compile(r" {0,3}#{1,6} ")
_ITEM = re.compile(r"( *(?:[-*+]|\d{1,9}[.)]) )(.*)", re.DOTALL)
_QUOTE = re.compile(r" {0,3}> ?")
# What may still become one of these, or the end of a fence: its line waits for more.
_UNDECIDED = re.compile(r" *(#{1,6}|`{1,}|~{1,}|[-*+]|\d{1,9}[.)]?|>)?", re.ASCII)
_LONGEST_WAIT = 80  # characters of a line's beginning
_LINES = re.compile(r"[^\n]*\n|[^\n]+")
_RUN = re.compile(r"(`+|\*+|_+|\n)")


@dataclass
class Styler:
    """`feed` and `finish` return text for a terminal; each piece ends unstyled."""

    styled: bool = True
    wrapper: Wrapper | None = None
    _begun: str | None = ""  # of a line whose kind is not known yet; None: it is known
    _run: str = ""  # of marks; what follows decides what it means
    _fence: str = ""  # how the block of code began that this line is in
    _line: str = ""  # style of the whole line
    _code: int = 0  # backticks around the code that this is in
    _strong: bool = False
    _stressed: bool = False
    _before: str = "\n"  # the character before the run
    _out: list[str] = field(default_factory=list)

    def feed(self, text: str) -> str:
        for part in _LINES.findall(text):
            self._part(part)
        return self._taken()

    def finish(self) -> str:
        """What was held back."""
        if self._begun:
            self._decide(self._begun, whole=True)
        self._settle("\n")
        self._begun = ""
        if self.wrapper is not None:
            self._out.append(self.wrapper.finish())
        return self._taken()

    def _taken(self) -> str:
        taken = "".join(self._out)
        self._out.clear()
        return taken

    def _part(self, part: str) -> None:
        """At most a line, or the rest of one."""
        if self._begun is None:
            self._inside(part)
        else:
            begun, whole = self._begun + part, part.endswith("\n")
            undecided = _UNDECIDED.fullmatch(begun) and len(begun) < _LONGEST_WAIT
            if undecided and not whole:
                self._begun = begun
                return
            self._decide(begun, whole)
        if part.endswith("\n"):
            self._settle("\n")
            self._begun, self._line, self._code = "", "", 0
            self._strong = self._stressed = False
            self._before = "\n"

    def _decide(self, begun: str, whole: bool) -> None:
        self._begun = None
        fence = _FENCE.match(begun)
        if self._fence:
            self._in_fence(begun, whole, fence)
        elif fence:
            self._fence, self._line = fence[1], _DIM
            self._put(begun)
        elif _HEADING.match(begun):
            self._line = _BOLD
            self._inline(begun)
        elif item := _ITEM.match(begun):
            self._put(item[1], _BOLD)
            self._inline(item[2])
        else:
            self._line = _ITALIC if _QUOTE.match(begun) else ""
            self._inline(begun)

    def _in_fence(self, begun: str, whole: bool, fence: re.Match[str] | None) -> None:
        ends = (
            fence
            and whole
            and fence[1].startswith(self._fence)
            and not begun[fence.end() :].strip()
        )
        self._line = _DIM if ends else _CODE
        self._put(begun)
        if ends:
            self._fence = ""

    def _inside(self, text: str) -> None:
        if self._fence:
            self._put(text)
        else:
            self._inline(text)

    def _inline(self, text: str) -> None:
        for part in filter(None, _RUN.split(text)):
            if part[0] in "`*_" and (not self._run or part[0] == self._run[0]):
                self._run += part
                continue
            self._settle(part[0])
            if part[0] in "`*_":
                self._run = part
            else:
                self._put(part)
                self._before = part[-1]

    def _settle(self, after: str) -> None:
        """What the run of marks means, between the characters before and after it."""
        run, self._run = self._run, ""
        if not run:
            return
        if run[0] == "`":
            self._ticks(run)
        elif self._code or not self._stresses(run, after):
            self._put(run)
        self._before = run[-1]

    def _ticks(self, run: str) -> None:
        if not self._code:
            self._code = len(run)
            self._put(run)
        else:
            self._put(run)
            self._code = 0 if self._code == len(run) else self._code

    def _stresses(self, run: str, after: str) -> bool:
        """Opens or closes, the marks themselves styled; False: they are ordinary characters."""
        opens, closes = not after.isspace(), not self._before.isspace()
        if run[0] == "_":
            opens, closes = opens and not self._before.isalnum(), closes and not after.isalnum()
        strong, stressed = len(run) >= 2, len(run) % 2 == 1
        ends = (self._strong or not strong) and (self._stressed or not stressed)
        if len(run) > 3 or not (closes if ends else opens):
            return False
        if not ends:
            self._strong, self._stressed = self._strong or strong, self._stressed or stressed
        self._put(run)
        if ends:
            self._strong, self._stressed = (
                self._strong and not strong,
                self._stressed and not stressed,
            )
        return True

    def _put(self, text: str, style: str = "") -> None:
        styles = [style, self._line, _CODE if self._code else ""]
        styles += [_BOLD if self._strong else "", _ITALIC if self._stressed else ""]
        codes = ";".join(dict.fromkeys(filter(None, styles))) if self.styled else ""
        if self.wrapper is not None:
            self._out.append(self.wrapper.feed(text, codes, as_it_is=bool(self._fence)))
        else:
            self._out.append(painted(text, codes))


def painted(text: str, codes: str) -> str:
    shown = text.rstrip("\n")
    if not codes or not shown:
        return text
    return f"\x1b[{codes}m{shown}{_RESET}{text[len(shown) :]}"

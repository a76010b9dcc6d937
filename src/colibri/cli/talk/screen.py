"""How an answer looks to a person at a terminal: thinking folded, markdown styled."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TextIO

from colibri.cli import figures, terminal
from colibri.cli.progress import ProgressLine
from colibri.cli.talk.markdown import Styler

if TYPE_CHECKING:
    from colibri.cli.talk.wrap import Wrapper


@dataclass
class Look:
    """What the person chose. styled: markdown gets styles, on a terminal that has them. wrapped:
    lines are broken at words."""

    styled: bool
    wrapped: bool = False
    unfolded: bool = False  # thinking is shown as it comes
    speed: bool = False  # a line about it after each answer


@dataclass
class Screen:
    """Shows one answer. Thinking goes to stderr, the answer to stdout."""

    look: Look
    _thought: int = 0  # characters
    _began: float = 0.0
    _folding: ProgressLine = field(default_factory=ProgressLine)
    _thinking: bool = False

    def __post_init__(self) -> None:
        wraps = self.look.wrapped
        self._styler = Styler(self.look.styled, _wrapper(sys.stdout) if wraps else None)
        self._aside = _wrapper(sys.stderr) if wraps else None

    def reasoning(self, text: str) -> None:
        if not self._thought:
            self._began = time.perf_counter()
        self._thinking = True
        self._thought += len(text)
        if self.look.unfolded:
            shown = terminal.harmless(text)
            terminal.write_aside(self._aside.feed(shown) if self._aside else shown)
        else:
            self._folding.update(lambda: f"thinking: {self._length()}")

    def text(self, text: str) -> None:
        self._end_thinking()
        shown = terminal.harmless(text)
        if self.look.styled or self.look.wrapped:
            shown = self._styler.feed(shown)
        terminal.write_shown(shown)

    def end(self) -> None:
        self._end_thinking()
        if rest := self._styler.finish():
            terminal.write_shown(rest)

    def _end_thinking(self) -> None:
        if not self._thinking:
            return
        self._thinking = False
        if self.look.unfolded:
            if self._aside and (rest := self._aside.finish()):
                terminal.write_aside(rest)
            terminal.end_aside()
        else:
            self._folding.close()
            terminal.write_aside(f"(thought for {self._length()}; /thinking show tells it)\n")

    def _length(self) -> str:
        seconds = figures.duration(time.perf_counter() - self._began)
        return f"{seconds}, {figures.count(self._thought, 'character')}"


def show_thinking(text: str, look: Look | None) -> None:
    """The whole of it."""
    if look is not None and look.wrapped:
        wrapper = _wrapper(sys.stderr)
        text = wrapper.feed(terminal.harmless(text)) + wrapper.finish()
    terminal.write_aside(text)
    terminal.end_aside()


def _wrapper(stream: TextIO) -> Wrapper:
    from colibri.cli.talk.wrap import Wrapper

    return Wrapper(lambda: terminal.columns(stream))

"""How an answer looks to a person at a terminal: thinking folded, markdown styled."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from colibri.cli import figures, terminal
from colibri.cli.progress import ProgressLine
from colibri.cli.talk.markdown import Styler


@dataclass
class Look:
    """What the person chose. styled: markdown gets styles, on a terminal that has them."""

    styled: bool
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
    _styler: Styler = field(default_factory=Styler)

    def reasoning(self, text: str) -> None:
        if not self._thought:
            self._began = time.perf_counter()
        self._thinking = True
        self._thought += len(text)
        if self.look.unfolded:
            terminal.write_aside(text)
        else:
            self._folding.update(lambda: f"thinking: {self._length()}")

    def text(self, text: str) -> None:
        self._end_thinking()
        shown = terminal.harmless(text)
        terminal.write_shown(self._styler.feed(shown) if self.look.styled else shown)

    def end(self) -> None:
        self._end_thinking()
        if rest := self._styler.finish():
            terminal.write_shown(rest)

    def _end_thinking(self) -> None:
        if not self._thinking:
            return
        self._thinking = False
        if self.look.unfolded:
            terminal.end_aside()
        else:
            self._folding.close()
            terminal.write_aside(f"(thought for {self._length()}; /thinking show tells it)\n")

    def _length(self) -> str:
        seconds = figures.duration(time.perf_counter() - self._began)
        return f"{seconds}, {figures.count(self._thought, 'character')}"

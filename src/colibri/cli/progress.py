"""Progress on stderr: one line that renews itself on a terminal, sparse lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from colibri.cli import figures, terminal

if TYPE_CHECKING:
    from colibri.engine.request import PrefillProgress
    from colibri.llm.loading import OnLoad

_REDRAW_SECONDS = 0.1
_SPARSE_SECONDS = 10.0
_ERASE_LINE = "\r\x1b[K"
_BAR_CELLS = 20


class ProgressLine:
    """Shows the latest line not more often than is of use; `close()` leaves a clean terminal."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._renews = terminal.is_terminal(sys.stderr)
        self._due = clock() + (_REDRAW_SECONDS if self._renews else _SPARSE_SECONDS)
        self._shown = False

    def update(self, line: Callable[[], str]) -> None:
        now = self._clock()
        if now < self._due:
            return
        if not self._renews:
            terminal.say(line())
            self._due = now + _SPARSE_SECONDS
            return
        sys.stderr.write(_ERASE_LINE + line()[: _columns() - 1])
        sys.stderr.flush()
        self._shown = True
        self._due = now + _REDRAW_SECONDS

    def close(self) -> None:
        if self._shown:
            sys.stderr.write(_ERASE_LINE)
            sys.stderr.flush()
            self._shown = False


def _columns() -> int:
    import shutil

    return shutil.get_terminal_size().columns


def prefill_line(progress: PrefillProgress) -> str:
    parts = [f"prompt {progress.tokens_done}/{figures.count(progress.tokens_total, 'token')}"]
    if progress.layers:  # a server tells less
        parts.append(f"layer {progress.layer}/{progress.layers}")
        parts.append(f"{figures.size(progress.bytes_read)} read")
    parts.append(f"{figures.duration(progress.seconds)} gone")
    if progress.eta_seconds is not None:
        parts.append(f"about {figures.duration(progress.eta_seconds)} left")
    return ", ".join(parts)


@contextmanager
def load_bar(quiet: bool) -> Iterator[OnLoad | None]:
    """What shows on a terminal how far a model is loaded; None elsewhere, and where nobody wants
    it. Once all is loaded it is gone, so that what is said then has a line of its own."""
    if quiet or not terminal.is_terminal(sys.stderr):
        yield None
        return
    from colibri.cli.echo import no_echo

    line, begin = ProgressLine(), time.monotonic()

    def on_load(done: int, total: int) -> None:
        if done < total:
            line.update(lambda: load_line(done, total, time.monotonic() - begin, _columns()))
        else:
            line.close()

    with no_echo(sys.stderr):
        try:
            yield on_load
        finally:
            line.close()


def load_line(done: int, total: int, seconds: float, columns: int = 80) -> str:
    """The bar is left out where it would push the rest out of the line."""
    cells = _BAR_CELLS * done // total
    bar = "#" * cells + "-" * (_BAR_CELLS - cells)
    text = f"{figures.size(done)} of {figures.size(total)}"
    if done:
        text += f", about {figures.duration(seconds * (total - done) / done)} left"
    line = f"loading [{bar}] {text}"
    return line if len(line) < columns else f"loading {text}"

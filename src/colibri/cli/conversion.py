"""The progress of a conversion: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from colibri.cli import figures, terminal
from colibri.cli.progress import ProgressLine

if TYPE_CHECKING:
    from colibri.convert.progress import ConvertProgress

OnProgress = Callable[["ConvertProgress"], None]


class Progress:
    """Shows progress, and remembers whether there was anything to do."""

    def __init__(self, show: OnProgress) -> None:
        self._show = show
        self.already_finished = False

    def __call__(self, progress: ConvertProgress) -> None:
        self.already_finished = progress.phase == "already finished"
        self._show(progress)


@contextmanager
def conversion_progress(quiet: bool) -> Iterator[Progress]:
    if quiet:
        yield Progress(lambda progress: None)
    elif terminal.is_terminal(sys.stderr):
        with _bar() as update:
            yield Progress(update)
    else:
        line = ProgressLine()
        yield Progress(lambda progress: line.update(lambda: convert_line(progress)))


def convert_line(progress: ConvertProgress) -> str:
    return f"{_figures(progress)}, {progress.file or progress.phase}"


def _figures(progress: ConvertProgress) -> str:
    parts = [
        f"{figures.size(progress.bytes_done)} of {figures.size(progress.bytes_total)}",
        f"{figures.size(progress.bytes_per_second)}/s",
    ]
    if progress.eta_seconds is not None:
        parts.append(f"about {figures.duration(progress.eta_seconds)} left")
    return ", ".join(parts)


@contextmanager
def _bar() -> Iterator[OnProgress]:
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as Bar

    # Short enough for 80 columns, the ^C that the terminal echoes included.
    columns = (BarColumn(bar_width=20), TextColumn("{task.description}", markup=False))
    bar = Bar(*columns, console=Console(stderr=True), transient=True)
    task = bar.add_task("", total=None)

    def update(progress: ConvertProgress) -> None:
        bar.update(
            task,
            total=progress.bytes_total,
            completed=progress.bytes_done,
            description=_figures(progress),
        )
        bar.start()  # not before: a refusal should leave no bar behind

    try:
        yield update
    finally:
        bar.stop()

"""The progress of a conversion: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from colibri.cli import figures, terminal
from colibri.cli.progress import ProgressLine

if TYPE_CHECKING:
    from colibri.container.manifest import FileEntry
    from colibri.convert.progress import ConvertProgress

OnProgress = Callable[["ConvertProgress"], None]


class Progress:
    """Shows progress, and remembers the last of it."""

    def __init__(self, show: OnProgress) -> None:
        self._show = show
        self.last: ConvertProgress | None = None

    def __call__(self, progress: ConvertProgress) -> None:
        self.last = progress
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


def closing_line(
    destination: Path, files: Sequence[FileEntry], last: ConvertProgress | None
) -> str:
    """What there is now and, if this run made any of it, how fast."""
    total = sum(file.size for file in files)
    line = f"{destination}: {figures.size(total)} in {figures.count(len(files), 'file')}"
    if last is None or last.phase == "already finished":
        return f"{line}, already converted"
    taken = last.bytes_per_second * last.seconds
    return (
        f"{line}, ready; {figures.size(taken)} in and {figures.size(last.bytes_written)} out in "
        f"{figures.duration(last.seconds)}: {figures.rate(taken / 1e6, last.seconds, 'MB/s')} in, "
        f"{figures.rate(last.bytes_written / 1e6, last.seconds, 'MB/s')} out"
    )


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

"""One answer streamed to stdout, its facts kept for the closing lines."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from colibri.cli import terminal
from colibri.cli.progress import ProgressLine, prefill_line
from colibri.errors import ColibriError

if TYPE_CHECKING:
    from colibri.answer import Chunk
    from colibri.engine.request import PrefillProgress

OnProgress = Callable[["PrefillProgress"], None]
Start = Callable[[OnProgress | None], Iterator["Chunk"]]


class Show(Protocol):
    """How an answer is shown, piece by piece. end: of the answer, whole or not."""

    def reasoning(self, text: str) -> None: ...
    def text(self, text: str) -> None: ...
    def end(self) -> None: ...


@dataclass
class Plain:
    """The answer to stdout as it is; reasoning to stderr, so that stdout is the answer alone."""

    quiet: bool
    _aside: bool = False  # reasoning was shown, and its end not told yet

    def reasoning(self, text: str) -> None:
        if not self.quiet:
            terminal.write_aside(text)
            self._aside = True

    def text(self, text: str) -> None:
        self.end()
        terminal.write_answer(text)

    def end(self) -> None:
        if self._aside:
            terminal.end_aside()
            self._aside = False


@dataclass
class Answer:
    """What has arrived so far. `finish_reason`: the model's, or "interruption" or "error"."""

    text: str = ""
    reasoning: str = ""
    token_ids: list[int] = field(default_factory=list)
    finish_reason: str | None = None
    ttft_seconds: float | None = None
    seconds: float = 0.0
    on_first_token: Callable[[], None] = lambda: None


def write_stream(
    start: Start,
    answer: Answer,
    *,
    quiet: bool,
    as_ids: bool = False,
    show: Show | None = None,
) -> None:
    """Stream an answer to stdout and into `answer`, which is right also when this raises.

    Ctrl-C raises KeyboardInterrupt after the generation was cancelled.
    """
    show = show or Plain(quiet)
    progress = ProgressLine()
    begin = time.perf_counter()
    on_progress: OnProgress | None = (
        None if quiet else lambda p: progress.update(lambda: prefill_line(p))
    )
    chunks = start(on_progress)
    try:
        for chunk in chunks:
            if answer.ttft_seconds is None and (chunk.token_ids or chunk.text or chunk.reasoning):
                answer.ttft_seconds = time.perf_counter() - begin
                answer.on_first_token()
                progress.close()
            _take(chunk, answer, as_ids, show)
    except KeyboardInterrupt:
        answer.finish_reason = "interruption"
        raise
    except (ColibriError, OSError):
        answer.finish_reason = "error"
        raise
    finally:
        if isinstance(chunks, Generator):
            chunks.close()  # cancels; without effect on one that has ended
        progress.close()
        show.end()
        answer.seconds = time.perf_counter() - begin
    if answer.finish_reason == "error":
        raise ColibriError("the answer ended early because of an error")


def _take(chunk: Chunk, answer: Answer, as_ids: bool, show: Show) -> None:
    # Noted before it is shown: an interrupt may come while it is.
    lead = " " if answer.token_ids else ""
    answer.reasoning += chunk.reasoning
    answer.text += chunk.text
    answer.token_ids.extend(chunk.token_ids)
    answer.finish_reason = chunk.finish_reason or answer.finish_reason
    if chunk.reasoning:
        show.reasoning(chunk.reasoning)
    if as_ids and chunk.token_ids:
        terminal.write_answer(lead + " ".join(map(str, chunk.token_ids)))
    elif not as_ids and chunk.text:
        show.text(chunk.text)

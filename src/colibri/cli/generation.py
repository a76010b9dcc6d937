"""One answer streamed to stdout, its facts kept for the closing lines."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from colibri.cli import terminal
from colibri.cli.progress import ProgressLine, prefill_line
from colibri.errors import ColibriError

if TYPE_CHECKING:
    from colibri.answer import Chunk
    from colibri.engine.request import PrefillProgress

OnProgress = Callable[["PrefillProgress"], None]
Start = Callable[[OnProgress | None], Iterator["Chunk"]]


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


def write_stream(start: Start, answer: Answer, *, quiet: bool, as_ids: bool = False) -> None:
    """Stream an answer to stdout and into `answer`, which is right also when this raises.

    Ctrl-C raises KeyboardInterrupt after the generation was cancelled.
    """
    progress = ProgressLine()
    begin = time.perf_counter()
    on_progress: OnProgress | None = (
        None if quiet else lambda p: progress.update(lambda: prefill_line(p))
    )
    chunks = start(on_progress)
    try:
        for chunk in chunks:
            if answer.ttft_seconds is None and chunk.token_ids:
                answer.ttft_seconds = time.perf_counter() - begin
                answer.on_first_token()
                progress.close()
            _show_reasoning(chunk, answer, quiet)
            _take(chunk, answer, as_ids)
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
        if answer.reasoning and not answer.text and not quiet:
            terminal.end_aside()
        answer.seconds = time.perf_counter() - begin
    if answer.finish_reason == "error":
        raise ColibriError("the answer ended early because of an error")


def _show_reasoning(chunk: Chunk, answer: Answer, quiet: bool) -> None:
    """To stderr, so that stdout is the answer alone; its end is told before the answer begins."""
    if chunk.reasoning and not quiet:
        terminal.write_aside(chunk.reasoning)
    if chunk.text and answer.reasoning + chunk.reasoning and not answer.text and not quiet:
        terminal.end_aside()
    answer.reasoning += chunk.reasoning


def _take(chunk: Chunk, answer: Answer, as_ids: bool) -> None:
    # Noted before it is written: an interrupt may come while it is.
    lead = " " if answer.token_ids else ""
    answer.text += chunk.text
    answer.token_ids.extend(chunk.token_ids)
    answer.finish_reason = chunk.finish_reason or answer.finish_reason
    if as_ids and chunk.token_ids:
        terminal.write_answer(lead + " ".join(map(str, chunk.token_ids)))
    elif not as_ids and chunk.text:
        terminal.write_answer(chunk.text)

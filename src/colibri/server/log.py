"""One line a request. Texts of prompts and answers only where the operator asked for them."""

from __future__ import annotations

import logging
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from colibri.words import count

if TYPE_CHECKING:
    from colibri.server.http.errors import ApiError
    from colibri.server.pieces import Whole

logger = logging.getLogger("colibri.server")

_LONGEST = 500


def one_line(text: str) -> str:
    """So that nobody writes lines of his own into the log."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)[:_LONGEST]


def fault(what: str, error: BaseException) -> None:
    """Where a fault of ours happened, and of what kind it is. What it says stays out: it may quote
    what was asked."""
    said = [what]
    for one in _chain(error):
        said += [
            type(one).__name__,
            *(line.rstrip() for line in traceback.format_tb(one.__traceback__)),
        ]
    logger.error("%s", "\n".join(said))


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


@dataclass
class Record:
    """Of one HTTP request."""

    request_id: str
    wants_text: bool
    began: float = field(default_factory=time.monotonic)
    prompt_tokens: int = 0
    cached_tokens: int = 0
    tokens: int = 0
    ttft_seconds: float | None = None
    reasons: list[str] = field(default_factory=list)
    error: str | None = None

    def read(self, prompt_tokens: int, cached_tokens: int) -> None:
        """A prompt was read."""
        self.prompt_tokens += prompt_tokens
        self.cached_tokens += cached_tokens

    def add(self, tokens: int, reason: str) -> None:
        """An answer has ended."""
        self.tokens += tokens
        self.reasons.append(reason)

    def asked(self, text: str) -> None:
        if self.wants_text:
            logger.info("%s prompt: %r", self.request_id, text)

    def say(self, wholes: Sequence[Whole]) -> None:
        if self.wants_text:
            for whole in wholes:
                logger.info("%s answer: %r", self.request_id, whole.reasoning + whole.text)

    def failed(self, error: ApiError) -> None:
        self.error = one_line(error.message if self.wants_text else error.logged)

    def line(self, method: str, path: str, status: int) -> str:
        seconds = time.monotonic() - self.began
        line = f"{self.request_id} {method} {path} {status} {1000 * seconds:.0f} ms"
        if self.prompt_tokens:
            line += f", prompt {count(self.prompt_tokens, 'token')} ({self.cached_tokens} cached)"
        if self.reasons:
            line += f", answer {self.tokens} ({', '.join(self.reasons)})"
        return f"{line}, {self.error}" if self.error else line

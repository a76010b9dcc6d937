"""What a caller gets: pieces of an answer as text, and the whole of it."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from colibri.engine.request import Finished, PrefillProgress, Request, Token
from colibri.text.assemble import TextAssembler

Progress = Callable[[PrefillProgress], None]


@dataclass(frozen=True)
class TokenLogprob:
    token_id: int
    logprob: float  # of the unmodified distribution
    top: tuple[tuple[int, float], ...]  # (id, logprob), most likely first


@dataclass(frozen=True)
class Chunk:
    """A piece of an answer; the last one carries the reason: "stop", "length" or "cancelled"."""

    text: str
    token_ids: tuple[int, ...]
    finish_reason: str | None = None
    logprobs: tuple[TokenLogprob, ...] | None = None


@dataclass(frozen=True)
class Completion:
    text: str
    token_ids: tuple[int, ...]
    finish_reason: str
    prompt_tokens: int
    logprobs: tuple[TokenLogprob, ...] | None
    ttft_seconds: float
    seconds: float


def chunks(
    request: Request, text: TextAssembler | None, on_progress: Progress | None = None
) -> Iterator[Chunk]:
    """The request's events as they come. Closing the iterator cancels the request.

    `text`: None where the model has no tokenizer; chunks then carry ids only.
    """
    try:
        while True:
            event = request.events.get()
            if isinstance(event, PrefillProgress):
                if on_progress is not None:
                    on_progress(event)
            elif isinstance(event, Token):
                chunk = _chunk(event, request, text)
                yield chunk
                if chunk.finish_reason:
                    return
            elif isinstance(event, Finished):
                yield Chunk(text.finish() if text else "", (), event.reason)
                return
            else:
                raise event.error
    finally:
        request.cancel()


def complete(request: Request, text: TextAssembler | None) -> Completion:
    """Wait for the whole answer."""
    started = time.perf_counter()
    parts, first = [], 0.0
    for chunk in chunks(request, text):
        first = first or time.perf_counter() - started
        parts.append(chunk)
    logprobs = tuple(entry for part in parts for entry in part.logprobs or ())
    return Completion(
        text="".join(part.text for part in parts),
        token_ids=tuple(i for part in parts for i in part.token_ids),
        finish_reason=parts[-1].finish_reason or "stop",
        prompt_tokens=len(request.prompt_ids),
        logprobs=logprobs if request.params.logprobs is not None else None,
        ttft_seconds=first,
        seconds=time.perf_counter() - started,
    )


def _chunk(token: Token, request: Request, text: TextAssembler | None) -> Chunk:
    logprobs = None
    if token.logprob is not None:
        logprobs = (TokenLogprob(token.id, token.logprob, token.top),)
    ends = token.id in request.eos_ids and not request.params.ignore_eos
    piece = text.push(token.id) if text and not ends else ""
    return Chunk(piece, (token.id,), "stop" if text and text.stopped else None, logprobs)

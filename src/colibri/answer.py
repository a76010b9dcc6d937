"""What a caller gets: pieces of an answer as text, and the whole of it."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from colibri.engine.request import Finished, PrefillProgress, Request, Token
from colibri.text.assemble import TextAssembler
from colibri.text.parts import Parts, ToolCall, ToolCallDelta, whole_calls

Progress = Callable[[PrefillProgress], None]


@dataclass(frozen=True)
class TokenLogprob:
    token_id: int
    logprob: float  # of the unmodified distribution
    top: tuple[tuple[int, float], ...]  # (id, logprob), most likely first


@dataclass(frozen=True)
class Chunk:
    """A piece of an answer; the last one carries the reason: "stop", "tool_calls" (a stop after
    at least one call), "length" or "cancelled".

    text: of the answer itself; reasoning comes apart from it.
    """

    text: str
    token_ids: tuple[int, ...]
    finish_reason: str | None = None
    logprobs: tuple[TokenLogprob, ...] | None = None
    reasoning: str = ""
    tool_calls: tuple[ToolCallDelta, ...] = ()


@dataclass(frozen=True)
class Completion:
    text: str
    reasoning: str  # "" without any
    tool_calls: tuple[ToolCall, ...]
    token_ids: tuple[int, ...]
    finish_reason: str
    prompt_tokens: int
    logprobs: tuple[TokenLogprob, ...] | None
    ttft_seconds: float
    seconds: float

    def message(self) -> dict[str, Any]:
        """The answer as a message, to go on with the conversation."""
        message: dict[str, Any] = {"role": "assistant", "content": self.text}
        if self.reasoning:
            message["reasoning_content"] = self.reasoning
        if self.tool_calls:
            message["tool_calls"] = [
                {"type": "function", "function": {"name": c.name, "arguments": c.arguments}}
                for c in self.tool_calls
            ]
        return message


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
                parts = text.finish() if text else Parts()
                yield _made(parts, (), _reason(event.reason, text))
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
        reasoning="".join(part.reasoning for part in parts),
        tool_calls=whole_calls(delta for part in parts for delta in part.tool_calls),
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
    parts = text.push(token.id) if text and not ends else Parts()
    stopped = text is not None and text.stopped
    return _made(parts, (token.id,), _reason("stop", text) if stopped else None, logprobs)


def _made(
    parts: Parts,
    token_ids: tuple[int, ...],
    reason: str | None,
    logprobs: tuple[TokenLogprob, ...] | None = None,
) -> Chunk:
    return Chunk(parts.text, token_ids, reason, logprobs, parts.reasoning, parts.tool_calls)


def _reason(reason: str, text: TextAssembler | None) -> str:
    called = text is not None and text.complete_calls > 0
    return "tool_calls" if called and reason == "stop" else reason

"""What a caller gets: pieces of an answer as text, and the whole of it."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, Protocol, TypeVar

from colibri.engine.request import (
    BranchLogprobs,
    Event,
    Failed,
    Finished,
    PrefillProgress,
    PromptLogprobs,
    Request,
    Token,
)
from colibri.errors import ConfigError
from colibri.text.assemble import TextAssembler
from colibri.text.parts import Parts, ToolCall, ToolCallDelta, whole_calls

Progress = Callable[[PrefillProgress], None]
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True)
class TokenLogprob:
    """How likely one token was, by the model's own distribution: before temperature, penalties or
    a structure change it."""

    token_id: int
    """The token's id."""
    logprob: float
    """Its log-probability, in nats."""
    top: tuple[tuple[int, float], ...]
    """The most likely tokens at this place as (id, log-probability), the most likely first: as
    many as were asked for."""


@dataclass(frozen=True)
class Chunk:
    """A piece of an answer, as `stream()` and `stream_chat()` give it."""

    text: str
    """What the answer's text goes on with: whole characters, and nothing that could still turn out
    to be a stop string. It is empty while such text is held back."""
    token_ids: tuple[int, ...]
    """The tokens that this piece is made of."""
    finish_reason: str | None = None
    """None for all chunks but the last, which says why the answer ended: "stop", "tool_calls" (a
    stop after at least one call), "length" or "cancelled"."""
    logprobs: tuple[TokenLogprob, ...] | None = None
    """One entry a token; None if they were not asked for."""
    reasoning: str = ""
    """What the model's reasoning goes on with. It is never part of the text."""
    tool_calls: tuple[ToolCallDelta, ...] = ()
    """Pieces of tool calls."""
    prompt_logprobs: tuple[TokenLogprob, ...] = ()
    """Of the prompt's next tokens, in chunks that come before the answer begins. The prompt's first
    token has none."""


@dataclass(frozen=True)
class Completion:
    """A whole answer, as `generate()` and `chat()` give it."""

    text: str
    """The answer's text, without reasoning and tool calls."""
    reasoning: str
    """The model's reasoning; empty if there was none."""
    tool_calls: tuple[ToolCall, ...]
    """The complete tool calls of the answer, in order."""
    token_ids: tuple[int, ...]
    """All tokens that were made, those of reasoning and calls among them."""
    finish_reason: str
    """Why the answer ended: "stop", "tool_calls", "length" or "cancelled"."""
    prompt_tokens: int
    """The length of the prompt, in tokens."""
    logprobs: tuple[TokenLogprob, ...] | None
    """One entry a token; None if they were not asked for."""
    ttft_seconds: float
    """Seconds until the first token was there."""
    seconds: float
    """Seconds until the answer was whole."""
    cached_tokens: int = 0
    """Tokens of the prompt that were not computed, because an earlier request left their state."""
    prompt_logprobs: tuple[TokenLogprob | None, ...] | None = None
    """One entry a token of the prompt, of which the first is None; None if not asked for."""

    def message(self) -> dict[str, Any]:
        """The answer as a message, to be appended to the conversation before the next question."""
        message: dict[str, Any] = {"role": "assistant", "content": self.text}
        if self.reasoning:
            message["reasoning_content"] = self.reasoning
        if self.tool_calls:
            message["tool_calls"] = [
                {"type": "function", "function": {"name": c.name, "arguments": c.arguments}}
                for c in self.tool_calls
            ]
        return message


class Answer:
    """One request's answer. Whoever gave the request a sink of his own pushes its events here;
    others iterate.

    `text`: None where the model has no tokenizer; chunks then carry ids only. notes: what of the
    question the model cannot do as asked, and what is done instead.
    """

    def __init__(
        self, request: Request, text: TextAssembler | None = None, notes: tuple[str, ...] = ()
    ) -> None:
        self.request = request
        self.notes = notes
        self.finished = False  # a chunk with a finish_reason was made; no event is wanted any more
        self._text = text

    @property
    def stopped_by(self) -> str | None:
        """The stop string that ended it."""
        return None if self._text is None else self._text.stopped_by

    @property
    def reasoning_tokens(self) -> int:
        """Of the answer's tokens those of its reasoning, the tags included; exact at its end."""
        return 0 if self._text is None else self._text.reasoning_tokens

    def cancel(self) -> None:
        self.request.cancel()

    def push(self, event: Event) -> Chunk | PrefillProgress:
        """What the event adds. Raises the error that ended the request."""
        match event:
            case PrefillProgress():
                return event
            case Token():
                chunk = self._token(event)
            case PromptLogprobs():
                return Chunk("", (), prompt_logprobs=tuple(map(_logprob, event.tokens)))
            case Finished():
                parts = self._text.finish() if self._text else Parts()
                chunk = _made(parts, (), self._reason(event.reason))
            case Failed():
                raise event.error
            case BranchLogprobs():
                raise TypeError("branches are scored, not answered")
        if chunk.finish_reason is not None:
            self.finished = True
            self.request.cancel()  # of no effect where the engine ended it
        return chunk

    def chunks(self, on_progress: Progress | None = None) -> Iterator[Chunk]:
        """The answer as it comes. Closing the iterator cancels the request."""
        events = queue_of(self.request)
        try:
            while not self.finished:
                made = self.push(events.get())
                if isinstance(made, Chunk):
                    yield made
                elif on_progress is not None:
                    on_progress(made)
        finally:
            self.request.cancel()

    def complete(self) -> Completion:
        """Wait for the whole answer."""
        started = time.perf_counter()
        parts, first = [], 0.0
        for chunk in self.chunks():
            if not chunk.prompt_logprobs:
                first = first or time.perf_counter() - started
            parts.append(chunk)
        return self.completion(parts, first, time.perf_counter() - started)

    def completion(self, parts: list[Chunk], first: float, seconds: float) -> Completion:
        """What all chunks add up to; first: seconds until the first."""
        request = self.request
        logprobs = tuple(entry for part in parts for entry in part.logprobs or ())
        scored = tuple(entry for part in parts for entry in part.prompt_logprobs)
        return Completion(
            text="".join(part.text for part in parts),
            reasoning="".join(part.reasoning for part in parts),
            tool_calls=whole_calls(delta for part in parts for delta in part.tool_calls),
            token_ids=tuple(i for part in parts for i in part.token_ids),
            finish_reason=parts[-1].finish_reason or "stop",
            prompt_tokens=len(request.prompt_ids),
            logprobs=logprobs if request.params.logprobs is not None else None,
            ttft_seconds=first,
            seconds=seconds,
            cached_tokens=request.cached_tokens,
            prompt_logprobs=None if request.params.prompt_logprobs is None else (None, *scored),
        )

    def _token(self, token: Token) -> Chunk:
        request, text = self.request, self._text
        logprobs = None if token.logprob is None else (_logprob(token),)
        ends = token.id in request.eos_ids and not request.params.ignore_eos
        parts = text.push(token.id) if text and not ends else Parts()
        stopped = text is not None and text.stopped
        return _made(parts, (token.id,), self._reason("stop") if stopped else None, logprobs)

    def _reason(self, reason: str) -> str:
        called = self._text is not None and self._text.complete_calls > 0
        return "tool_calls" if called and reason == "stop" else reason


def queue_of(request: Request) -> "SimpleQueue[Event]":
    """Where a request without a sink of its own puts its events."""
    if not isinstance(request.events, SimpleQueue):
        raise ConfigError("the request's events go to a sink of its own: push() them")
    return request.events


class Pushable(Protocol[T_co]):
    """A request whose events come to one thing."""

    @property
    def request(self) -> Request: ...

    def push(self, event: Event, /) -> T_co | PrefillProgress | None: ...


def awaited(asked: Pushable[T]) -> T:
    """What it comes to. Raises the error that ended the request; cancels it if left early."""
    events = queue_of(asked.request)
    try:
        while True:
            made = asked.push(events.get())
            if made is not None and not isinstance(made, PrefillProgress):
                return made
    finally:
        asked.request.cancel()


def _logprob(token: Token) -> TokenLogprob:
    assert token.logprob is not None
    return TokenLogprob(token.id, token.logprob, token.top)


def _made(
    parts: Parts,
    token_ids: tuple[int, ...],
    reason: str | None,
    logprobs: tuple[TokenLogprob, ...] | None = None,
) -> Chunk:
    return Chunk(parts.text, token_ids, reason, logprobs, parts.reasoning, parts.tool_calls)

"""What an answer adds, in pieces that never have to be taken back: streamed one by one or added up,
they are the same."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from colibri.text.parts import ToolCall, ToolCallDelta, whole_calls

if TYPE_CHECKING:
    from colibri.answer import Answer, Chunk, TokenLogprob


@dataclass(frozen=True)
class Piece:
    """logprobs: of the answer's tokens but the one that ends it. reason: with the last piece."""

    text: str = ""
    reasoning: str = ""
    calls: tuple[ToolCall, ...] = ()
    logprobs: tuple[TokenLogprob, ...] = ()
    prompt_logprobs: tuple[TokenLogprob, ...] = ()
    reason: str | None = None


@dataclass
class Whole:
    """What the pieces of one answer add up to."""

    text: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    logprobs: list[TokenLogprob] = field(default_factory=list)
    prompt_logprobs: list[TokenLogprob] = field(default_factory=list)
    reason: str = "stop"

    def add(self, piece: Piece) -> None:
        self.text.append(piece.text)
        self.reasoning.append(piece.reasoning)
        self.calls += piece.calls
        self.logprobs += piece.logprobs
        self.prompt_logprobs += piece.prompt_logprobs
        self.reason = piece.reason or self.reason


class PieceReader:
    """The chunks of one answer as pieces. A tool call is held back until it is whole: what began as
    one may turn out to be text. Counts tokens."""

    def __init__(self, answer: Answer) -> None:
        request = answer.request
        self._ends = frozenset() if request.params.ignore_eos else request.eos_ids
        self._held: list[ToolCallDelta] = []
        self.request = request
        self.tokens = 0
        self.calls = 0

    def read(self, chunk: Chunk) -> Piece:
        self.tokens += len(chunk.token_ids)
        calls = tuple(self._whole_calls(chunk.tool_calls))
        self.calls += len(calls)
        logprobs = tuple(e for e in chunk.logprobs or () if e.token_id not in self._ends)
        return Piece(
            chunk.text,
            chunk.reasoning,
            calls,
            logprobs,
            chunk.prompt_logprobs,
            chunk.finish_reason,
        )

    def _whole_calls(self, deltas: Iterable[ToolCallDelta]) -> Iterator[ToolCall]:
        for delta in deltas:
            self._held.append(delta)
            if delta.end is not None:
                yield from whole_calls(self._held)
                self._held.clear()

"""What an answer adds, in pieces that never have to be taken back: streamed one by one or added up,
they are the same."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

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
class Block:
    """Text of one kind that nothing interrupts."""

    kind: Literal["reasoning", "text"]
    parts: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(self.parts)


@dataclass
class Whole:
    """What the pieces of one answer add up to. blocks: in the order in which they were written."""

    blocks: list[Block | ToolCall] = field(default_factory=list)
    logprobs: list[TokenLogprob] = field(default_factory=list)
    prompt_logprobs: list[TokenLogprob] = field(default_factory=list)
    reason: str = "stop"

    def add(self, piece: Piece) -> None:
        self._grow("reasoning", piece.reasoning)
        self._grow("text", piece.text)
        self.blocks += piece.calls
        self.logprobs += piece.logprobs
        self.prompt_logprobs += piece.prompt_logprobs
        self.reason = piece.reason or self.reason

    @property
    def text(self) -> str:
        return self._joined("text")

    @property
    def reasoning(self) -> str:
        return self._joined("reasoning")

    @property
    def calls(self) -> list[ToolCall]:
        return [block for block in self.blocks if isinstance(block, ToolCall)]

    def _joined(self, kind: str) -> str:
        blocks = (block for block in self.blocks if isinstance(block, Block))
        return "".join(block.text for block in blocks if block.kind == kind)

    def _grow(self, kind: Literal["reasoning", "text"], text: str) -> None:
        if not text:
            return
        last = self.blocks[-1] if self.blocks else None
        if not isinstance(last, Block) or last.kind != kind:
            last = Block(kind)
            self.blocks.append(last)
        last.parts.append(text)


class PieceReader:
    """The chunks of one answer as pieces. A tool call is held back until it is whole: what began as
    one may turn out to be text. Counts tokens."""

    def __init__(self, answer: Answer) -> None:
        request = answer.request
        self._ends = frozenset() if request.params.ignore_eos else request.eos_ids
        self._held: list[ToolCallDelta] = []
        self._answer = answer
        self.request = request
        self.tokens = 0

    @property
    def reasoning_tokens(self) -> int:
        return self._answer.reasoning_tokens

    def read(self, chunk: Chunk) -> Piece:
        self.tokens += len(chunk.token_ids)
        calls = tuple(self._whole_calls(chunk.tool_calls))
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

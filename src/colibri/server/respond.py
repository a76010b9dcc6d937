"""One way from an exchange to a response, for every API: a writer knows how each puts it."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from starlette.requests import Request
from starlette.responses import Response

from colibri.engine.request import PrefillProgress
from colibri.server.http.errors import ApiError, as_api_error
from colibri.server.http.reply import Json
from colibri.server.http.stream import EventStream, comment, unless_gone
from colibri.server.live import Exchange, Inbox
from colibri.server.log import Record
from colibri.server.pieces import Piece, PieceReader, Whole
from colibri.server.service import Service

if TYPE_CHECKING:
    from colibri.answer import Answer

PROGRESS_SECONDS = 1.0  # between two reports of prefill


class Writer(Protocol):
    """How an API says it. Bytes are whole events."""

    def begin(self) -> Iterable[bytes]: ...
    def piece(self, index: int, piece: Piece) -> Iterable[bytes]: ...
    def end(self) -> Iterable[bytes]: ...
    def error(self, error: ApiError) -> bytes: ...
    def whole(self, wholes: Sequence[Whole]) -> Any: ...


@dataclass
class Turn:
    """The answers to one request, being given: their readers count, the clock runs. each: answers
    to one prompt, which stand together; it is counted with the first of them."""

    service: Service
    exchange: Exchange
    readers: list[PieceReader]
    record: Record
    began: float
    each: int

    @classmethod
    def of(
        cls,
        service: Service,
        answers: Sequence[Answer],
        inbox: Inbox,
        record: Record,
        each: int = 1,
    ) -> Turn:
        if record.wants_text and (tokenizer := service.llm.tokenizer) is not None:
            for prompt in dict.fromkeys(tuple(answer.request.prompt_ids) for answer in answers):
                record.asked(tokenizer.decode(prompt, skip_special_tokens=False))
        readers = [PieceReader(answer) for answer in answers]
        exchange = service.exchange(answers, inbox)
        return cls(service, exchange, readers, record, time.monotonic(), each)

    async def pieces(self) -> AsyncIterator[tuple[int, Piece] | dict[str, Any]]:
        """What answers add; between them, when there is nothing else to say, signs of life."""
        keepalive = float(self.service.config.keepalive)
        said = 0.0
        first: dict[int, float] = {}
        async with aclosing(self.exchange.events(min(keepalive, PROGRESS_SECONDS))) as events:  # type: ignore[type-var]
            async for happened in events:
                now = time.monotonic()
                made = None if happened is None else happened[1]
                if happened is None or isinstance(made, PrefillProgress):
                    progress = made if isinstance(made, PrefillProgress) else None
                    wait = keepalive if progress is None else PROGRESS_SECONDS
                    if now - said >= wait:
                        said = now
                        yield self._alive(progress)
                    continue
                index, chunk = happened
                piece = self.readers[index].read(chunk)  # type: ignore[arg-type]
                self._measure(index, piece, first, now)
                said = now
                yield index, piece

    def _alive(self, progress: PrefillProgress | None) -> dict[str, Any]:
        if progress is None:
            tokens = sum(reader.tokens for reader in self.readers)
            return {"state": "decoding", "tokens": tokens} if tokens else {"state": "waiting"}
        return {
            "state": "prefill",
            "tokens_done": progress.tokens_done,
            "tokens_total": progress.tokens_total,
            "eta_seconds": progress.eta_seconds and round(progress.eta_seconds, 1),
        }

    def _measure(self, index: int, piece: Piece, first: dict[int, float], now: float) -> None:
        metrics, reader = self.service.metrics, self.readers[index]
        if index not in first and reader.tokens:
            first[index] = now
            metrics.first_token.observe(now - self.began)
            if self.record.ttft_seconds is None:
                self.record.ttft_seconds = now - self.began
        if piece.reason is None:
            return
        request = reader.request
        metrics.answers.labels(piece.reason).inc()
        if index % self.each == 0:
            read, cached = len(request.prompt_ids), request.cached_tokens
            metrics.prompt_tokens.inc(read)
            metrics.cached_tokens.inc(cached)
            self.record.read(read, cached)
        metrics.generation_tokens.inc(reader.tokens)
        metrics.whole.observe(now - self.began)
        if reader.tokens > 1:
            metrics.per_token.observe((now - first[index]) / (reader.tokens - 1))
        self.record.add(reader.tokens, piece.reason)


async def respond(
    request: Request, turn: Turn, writer: Writer, *, streams: bool, headers: dict[str, str]
) -> Response:
    """Queues the answers. Raises what refuses or ends them, unless a stream has begun: that tells
    its error itself."""
    turn.exchange.start()
    if streams:
        return EventStream(lambda: _frames(turn, writer), headers)
    wholes = await unless_gone(request, _wholes(turn))
    return Json(writer.whole(wholes), headers=headers)


async def _wholes(turn: Turn) -> list[Whole]:
    wholes = [Whole() for _ in turn.readers]
    with turn.service.answering(turn.exchange):
        async with aclosing(turn.pieces()) as pieces:  # type: ignore[type-var]
            async for piece in pieces:
                if isinstance(piece, tuple):
                    wholes[piece[0]].add(piece[1])
    turn.record.say(wholes)
    return wholes


async def _frames(turn: Turn, writer: Writer) -> AsyncIterator[bytes]:
    wholes = [Whole() for _ in turn.readers] if turn.record.wants_text else []
    with turn.service.answering(turn.exchange):
        yield b"".join(writer.begin())
        try:
            async with aclosing(turn.pieces()) as pieces:  # type: ignore[type-var]
                async for piece in pieces:
                    if isinstance(piece, dict):
                        yield comment(piece)
                        continue
                    if wholes:
                        wholes[piece[0]].add(piece[1])
                    if frame := b"".join(writer.piece(*piece)):
                        yield frame
        except Exception as error:  # the headers are gone: here is where a stream tells its errors
            refusal = as_api_error(error)
            turn.record.failed(refusal)
            yield writer.error(refusal.without_places(turn.service.places()))
            return
        yield b"".join(writer.end())
    turn.record.say(wholes)

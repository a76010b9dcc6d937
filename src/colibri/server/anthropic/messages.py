"""POST /v1/messages and /v1/messages/count_tokens, of Anthropic's API."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from starlette.requests import Request
from starlette.responses import Response

from colibri.server.anthropic.structs import (
    Block,
    CountBody,
    MessageBody,
    MessageDelta,
    MessageUsage,
    StopReason,
    TokenCount,
    WrittenMessage,
    WrittenText,
    WrittenThinking,
    WrittenToolUse,
)
from colibri.server.anthropic.turns import chat_messages, chat_options
from colibri.server.http import stream
from colibri.server.http.body import read
from colibri.server.http.errors import ApiError, bad_request
from colibri.server.http.reply import Json
from colibri.server.pieces import Piece, Whole
from colibri.server.respond import Turn, respond
from colibri.server.sampling import blaming, notice_of, with_fields
from colibri.server.service import Service
from colibri.text.parts import ToolCall

if TYPE_CHECKING:
    from colibri.answer import Answer
    from colibri.server.live import Inbox

_REASONS: dict[str, StopReason] = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
}


async def create(request: Request, service: Service) -> Response:
    body = await read(request, MessageBody, service.config)
    service.check_model(body.model)
    check(body)
    inbox = service.inbox()
    structured = body.output_config is not None
    with blaming("messages", "output_config" if structured else "tools"):
        make = partial(_answer, service, body, inbox)
        answer = await service.work(make, compiles=structured or bool(body.tools))
    turn = Turn.of(service, [answer], inbox, request.scope["colibri"])
    headers = notice_of(service, [answer], body.max_tokens)
    writer = MessageWriter(turn, answer)
    return await respond(request, turn, writer, streams=bool(body.stream), headers=headers)


async def count_tokens(request: Request, service: Service) -> Response:
    body = await read(request, CountBody, service.config)
    service.check_model(body.model)
    check(body)
    messages, options = chat_messages(body), chat_options(body)
    with blaming("messages"):
        ids = await service.work(partial(service.llm.render, messages, **options))
    return Json(TokenCount(input_tokens=len(ids)))


def check(body: CountBody) -> None:
    """What the form of the fields does not say."""
    if body.messages[-1].__struct_config__.tag == "assistant":
        where = f"messages[{len(body.messages) - 1}]"
        raise bad_request(
            f"{where}: an answer that is begun for the model is not supported; end with a user's "
            "message",
            where,
        )
    if body.tool_choice is not None and not body.tools:
        raise bad_request("tool_choice: there are no tools", "tool_choice")


def _answer(service: Service, body: MessageBody, inbox: Inbox) -> Answer:
    structure = None
    if body.output_config is not None and body.output_config.format is not None:
        from colibri.grammar.structure import Structure

        structure = Structure.json_schema(body.output_config.format.schema)
    params = with_fields(
        service.default_params,
        {
            "max_tokens": body.max_tokens,
            "temperature": body.temperature,
            "top_p": body.top_p,
            "top_k": body.top_k,
            "stop": tuple(body.stop_sequences) if body.stop_sequences else None,
            "structure": structure,
        },
    )
    return service.llm.request(
        None,
        params,
        messages=chat_messages(body),
        sink=inbox.sink(0),
        deadline=service.deadline(),
        **chat_options(body),
    )


class MessageWriter:
    """An answer in Anthropic's form: blocks one after the other, of thinking, text and tool use."""

    def __init__(self, turn: Turn, answer: Answer) -> None:
        self._turn, self._answer = turn, answer
        self._id = f"msg_{secrets.token_hex(12)}"
        self._open: str | None = None
        self._blocks = 0

    def begin(self) -> Iterator[bytes]:
        message = self._message([], None, None)
        yield stream.event("message_start", {"type": "message_start", "message": message})
        yield stream.event("ping", {"type": "ping"})

    def piece(self, index: int, piece: Piece) -> Iterator[bytes]:
        if piece.reasoning:
            delta = {"type": "thinking_delta", "thinking": piece.reasoning}
            yield from self._grow(WrittenThinking(thinking=""), delta)
        if piece.text:
            yield from self._grow(WrittenText(text=""), {"type": "text_delta", "text": piece.text})
        for call in piece.calls:
            yield from self._close()
            block = WrittenToolUse(id=_call_id(), name=call.name, input={})
            delta = {"type": "input_json_delta", "partial_json": call.arguments}
            yield from self._grow(block, delta)
            yield from self._close()
        if piece.reason is not None:
            yield from self._close()
            yield from self._ended(piece.reason)

    def end(self) -> Iterator[bytes]:
        yield stream.event("message_stop", {"type": "message_stop"})

    def error(self, error: ApiError) -> bytes:
        return b"event: error\ndata: " + error.anthropic() + b"\n\n"

    def whole(self, wholes: Sequence[Whole]) -> WrittenMessage:
        (whole,) = wholes
        return self._message(list(_blocks(whole)), *self._stop(whole.reason))

    def _ended(self, reason: str) -> Iterator[bytes]:
        stop, sequence = self._stop(reason)
        delta = MessageDelta(stop_reason=stop, stop_sequence=sequence)
        ended = {"type": "message_delta", "delta": delta, "usage": self._usage()}
        yield stream.event("message_delta", ended)

    def _stop(self, reason: str) -> tuple[StopReason, str | None]:
        if reason == "stop" and (sequence := self._answer.stopped_by) is not None:
            return "stop_sequence", sequence
        return _REASONS[reason], None

    def _grow(self, start: Block, delta: dict[str, Any]) -> Iterator[bytes]:
        """The delta goes into the open block if that is of its kind, else into a new one."""
        kind = cast(str, start.__struct_config__.tag)
        if self._open != kind:
            yield from self._close()
            self._open = kind
            begun = {"type": "content_block_start", "index": self._blocks, "content_block": start}
            yield stream.event("content_block_start", begun)
        grown = {"type": "content_block_delta", "index": self._blocks, "delta": delta}
        yield stream.event("content_block_delta", grown)

    def _close(self) -> Iterator[bytes]:
        if self._open is not None:
            closed = {"type": "content_block_stop", "index": self._blocks}
            yield stream.event("content_block_stop", closed)
            self._open = None
            self._blocks += 1

    def _message(
        self, content: list[Block], reason: StopReason | None, sequence: str | None
    ) -> WrittenMessage:
        return WrittenMessage(
            id=self._id,
            model=self._turn.service.model_id,
            content=content,
            stop_reason=reason,
            stop_sequence=sequence,
            usage=self._usage(),
        )

    def _usage(self) -> MessageUsage:
        (reader,) = self._turn.readers
        cached = reader.request.cached_tokens
        return MessageUsage(
            input_tokens=len(reader.request.prompt_ids) - cached,
            output_tokens=reader.tokens,
            cache_read_input_tokens=cached,
        )


def _blocks(whole: Whole) -> Iterator[Block]:
    for block in whole.blocks:
        if isinstance(block, ToolCall):
            yield WrittenToolUse(id=_call_id(), name=block.name, input=block.parsed())
        elif block.kind == "text":
            yield WrittenText(text=block.text)
        else:
            yield WrittenThinking(thinking=block.text)


def _call_id() -> str:
    return f"toolu_{secrets.token_hex(12)}"

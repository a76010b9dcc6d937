"""POST /v1/chat/completions."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from msgspec import UNSET
from starlette.requests import Request
from starlette.responses import Response

from colibri.server.http import stream
from colibri.server.http.body import read
from colibri.server.http.errors import ApiError, bad_request
from colibri.server.openai.messages import as_template_takes, says_anything
from colibri.server.openai.structs.chat import (
    AssistantMessage,
    ChatBody,
    ChatChunk,
    ChatCompletion,
    Choice,
    ChunkChoice,
    Delta,
    Logprobs,
    NamedChoice,
    WrittenCall,
    WrittenFunction,
    WrittenMessage,
)
from colibri.server.openai.tokens import TokenNames, chat_logprobs
from colibri.server.pieces import Piece, Whole
from colibri.server.respond import Turn, respond
from colibri.server.sampling import (
    blaming,
    check_openai,
    choices_of,
    default_max_tokens,
    notice_of,
    params_of,
    structure_of,
    usage_of,
)
from colibri.server.service import Service

if TYPE_CHECKING:
    from colibri.answer import Answer, TokenLogprob
    from colibri.server.live import Inbox
    from colibri.text.chat import ChatOptions
    from colibri.text.parts import ToolCall


async def complete(request: Request, service: Service) -> Response:
    body = await read(request, ChatBody, service.config)
    service.check_model(body.model)
    check(body)
    inbox = service.inbox()
    structured = body.response_format is not None
    with blaming("messages", "response_format" if structured else "tools"):
        make = partial(_answers, service, body, inbox)
        answers = await service.work(make, compiles=structured or bool(body.tools))
    turn = Turn.of(service, answers, inbox, request.scope["colibri"], body.n or 1)
    headers = notice_of(service, answers, body.max_completion_tokens or body.max_tokens)
    writer = ChatWriter(turn, body)
    return await respond(request, turn, writer, streams=body.streams, headers=headers)


def check(body: ChatBody) -> None:
    """What the form of the fields does not say."""
    check_openai(body)
    if body.top_logprobs and not body.logprobs:
        raise bad_request("top_logprobs: only with logprobs", "top_logprobs")
    if body.store:
        raise bad_request("store: nothing is stored here", "store", "unsupported_parameter")
    given = (body.max_tokens, body.max_completion_tokens)
    if None not in given and given[0] != given[1]:
        raise bad_request("max_tokens: max_completion_tokens says otherwise", "max_tokens")
    if body.tool_choice not in (None, "none", "auto") and not body.tools:
        raise bad_request("tool_choice: there are no tools", "tool_choice")
    effort = (body.chat_template_kwargs or {}).get("reasoning_effort")
    if effort is not None and body.reasoning_effort not in (None, effort):
        where = "chat_template_kwargs.reasoning_effort"
        raise bad_request(f"{where}: reasoning_effort says otherwise", where)
    for at, message in enumerate(body.messages):
        if isinstance(message, AssistantMessage) and not says_anything(message):
            where = f"messages[{at}].content"
            raise bad_request(f"{where}: is missing, and there are no tool_calls", where)


def _answers(service: Service, body: ChatBody, inbox: Inbox) -> list[Answer]:
    logprobs = (body.top_logprobs or 0) if body.logprobs else None
    asked = body.max_completion_tokens or body.max_tokens
    params = params_of(
        service,
        body,
        max_tokens=asked or default_max_tokens(service),
        logprobs=logprobs,
        structure=structure_of(body.response_format),
    )
    messages = [as_template_takes(message) for message in body.messages]
    options = _options(body)
    deadline = service.deadline()
    return [
        service.llm.request(
            None, each, messages=messages, sink=inbox.sink(i), deadline=deadline, **options
        )
        for i, each in enumerate(choices_of(params, body.n or 1))
    ]


_THINKING = ("enable_thinking", "thinking")  # templates' names of one switch


def _options(body: ChatBody) -> ChatOptions:
    options: dict[str, Any] = {}
    if body.tools:
        options["tools"] = [_tool(tool.function) for tool in body.tools]
    if isinstance(body.tool_choice, NamedChoice):
        name = body.tool_choice.function.name
        options["tool_choice"] = {"type": "function", "function": {"name": name}}
    elif body.tool_choice is not None and body.tools:
        options["tool_choice"] = body.tool_choice
    if body.parallel_tool_calls is not None and body.tools:
        options["parallel_tool_calls"] = body.parallel_tool_calls
    if (thinking := _thinking(body)) is not None:
        options["thinking"] = thinking
    variables = {k: v for k, v in (body.chat_template_kwargs or {}).items() if k not in _THINKING}
    if body.reasoning_effort is not None:
        options["reasoning_effort"] = body.reasoning_effort
    if variables:
        options["variables"] = variables
    return cast("ChatOptions", options)


def _thinking(body: ChatBody) -> bool | None:
    """What all names of the switch say."""
    given = body.chat_template_kwargs or {}
    names = {"enable_thinking": body.enable_thinking}
    names |= {f"chat_template_kwargs.{name}": given.get(name) for name in _THINKING}
    said = {name: value for name, value in names.items() if value is not None}
    for name, value in said.items():
        if not isinstance(value, bool):
            raise bad_request(f"{name}: true or false expected", name, "invalid_value")
    if body.reasoning_effort == "none":
        said["reasoning_effort"] = False
    if len(set(said.values())) > 1:
        first, *others = said
        other = next(name for name in others if said[name] != said[first])
        raise bad_request(f"{other}: {first} says otherwise", other)
    return next((value for name, value in said.items() if name != "reasoning_effort"), None)


def _tool(function: Any) -> dict[str, Any]:
    known = {
        "name": function.name,
        "description": function.description,
        "parameters": function.parameters,
        "strict": function.strict,
    }
    given = {name: value for name, value in known.items() if value is not None}
    return {"type": "function", "function": given}


class ChatWriter:
    """An answer in OpenAI's form."""

    def __init__(self, turn: Turn, body: ChatBody) -> None:
        self._turn, self._body = turn, body
        self._names = TokenNames(turn.service.llm.tokenizer)
        self._id = f"chatcmpl-{secrets.token_hex(12)}"
        self._created = int(time.time())
        self._calls = [0] * len(turn.readers)

    def begin(self) -> Iterator[bytes]:
        for index in range(len(self._turn.readers)):
            yield self._chunk(index, Delta(role="assistant", content=""))

    def piece(self, index: int, piece: Piece) -> Iterator[bytes]:
        delta = Delta(
            content=piece.text or UNSET,
            reasoning_content=piece.reasoning or UNSET,
            tool_calls=self._written(index, piece.calls) or UNSET,
        )
        says = piece.text or piece.reasoning or piece.calls
        if says or piece.logprobs:
            yield self._chunk(index, delta, logprobs=self._logprobs(piece.logprobs))
        if piece.reason is not None:
            yield self._chunk(index, Delta(), reason=piece.reason)

    def end(self) -> Iterator[bytes]:
        if self._body.wants_usage:
            yield stream.data(self._envelope([], usage_of(self._turn.readers, self._turn.each)))
        yield stream.DONE

    def error(self, error: ApiError) -> bytes:
        return b"data: " + error.openai() + b"\n\n"

    def whole(self, wholes: Sequence[Whole]) -> ChatCompletion:
        return ChatCompletion(
            id=self._id,
            object="chat.completion",
            created=self._created,
            model=self._turn.service.model_id,
            system_fingerprint=self._turn.service.fingerprint,
            choices=[self._choice(i, whole) for i, whole in enumerate(wholes)],
            usage=usage_of(self._turn.readers, self._turn.each),
        )

    def _choice(self, index: int, whole: Whole) -> Choice:
        text, calls = whole.text, self._written(index, whole.calls, streamed=False)
        message = WrittenMessage(
            role="assistant",
            content=text if text or not calls else None,
            reasoning_content=whole.reasoning or UNSET,
            tool_calls=calls or UNSET,
        )
        return Choice(
            index=index,
            message=message,
            logprobs=self._logprobs(whole.logprobs),
            finish_reason=cast(Any, whole.reason),
        )

    def _written(
        self, index: int, calls: Sequence[ToolCall], streamed: bool = True
    ) -> list[WrittenCall]:
        written = []
        for call in calls:
            at = self._calls[index]
            self._calls[index] += 1
            written.append(
                WrittenCall(
                    index=at if streamed else UNSET,
                    id=f"call_{secrets.token_hex(12)}",
                    function=WrittenFunction(name=call.name, arguments=call.arguments),
                )
            )
        return written

    def _logprobs(self, entries: Sequence[TokenLogprob]) -> Logprobs | None:
        if not self._body.logprobs:
            return None
        return chat_logprobs(entries, self._names, self._body.top_logprobs or 0)

    def _chunk(
        self,
        index: int,
        delta: Delta,
        *,
        logprobs: Logprobs | None = None,
        reason: str | None = None,
    ) -> bytes:
        choice = ChunkChoice(
            index=index, delta=delta, logprobs=logprobs, finish_reason=cast(Any, reason)
        )
        return stream.data(self._envelope([choice], None))

    def _envelope(self, choices: list[ChunkChoice], usage: Any) -> ChatChunk:
        return ChatChunk(
            id=self._id,
            object="chat.completion.chunk",
            created=self._created,
            model=self._turn.service.model_id,
            system_fingerprint=self._turn.service.fingerprint,
            choices=choices,
            usage=usage if self._body.wants_usage else UNSET,
        )

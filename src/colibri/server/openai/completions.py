"""POST /v1/completions: prompts as they are, of text or token ids, one or many."""

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
from colibri.server.openai.structs.completions import (
    MOST_PROMPTS,
    CompletionBody,
    TextChoice,
    TextCompletion,
    TextLogprobs,
)
from colibri.server.openai.tokens import TextLogprobsWriter, TokenNames, joined
from colibri.server.pieces import Piece, Whole
from colibri.server.respond import Turn, respond
from colibri.server.sampling import (
    blaming,
    check_openai,
    choices_of,
    notice_of,
    params_of,
    structure_of,
    usage_of,
)
from colibri.server.service import Service

if TYPE_CHECKING:
    from colibri.answer import Answer
    from colibri.sampling import SamplingParams
    from colibri.server.live import Inbox

Prompt = str | list[int]
_DEFAULT_TOKENS = 16  # as OpenAI's


async def complete(request: Request, service: Service) -> Response:
    body = await read(request, CompletionBody, service.config)
    service.check_model(body.model)
    check(body)
    prompts = prompts_of(body.prompt)
    inbox = service.inbox()
    make = partial(_answers, service, body, prompts, inbox)
    answers = await service.work(make, compiles=body.response_format is not None)
    turn = Turn.of(service, answers, inbox, request.scope["colibri"], body.n or 1)
    writer = CompletionWriter(turn, body, prompts)
    headers = notice_of(service, answers, body.max_tokens)
    return await respond(request, turn, writer, streams=body.streams, headers=headers)


def check(body: CompletionBody) -> None:
    """What the form of the fields does not say."""
    check_openai(body)
    if body.best_of not in (None, body.n or 1):
        raise bad_request(
            "best_of: answers are not ranked here; use n", "best_of", "unsupported_parameter"
        )
    if body.max_tokens == 0 and not body.echo:
        raise bad_request("max_tokens: 0 is for echo only", "max_tokens")


def prompts_of(prompt: str | list[Any]) -> list[Prompt]:
    """A text, texts, token ids or lists of them."""
    if isinstance(prompt, str):
        prompts: list[Any] = [prompt]
    else:
        kinds = {type(one) for one in prompt}
        if len(kinds) > 1:
            raise bad_request("prompt: texts, token ids or lists of these, of one kind", "prompt")
        prompts = [prompt] if kinds == {int} else prompt
    if len(prompts) > MOST_PROMPTS:
        raise bad_request(f"prompt: {len(prompts)} prompts; {MOST_PROMPTS} at most", "prompt")
    for at, one in enumerate(prompts):
        if not one:
            where = "prompt" if one is prompt else f"prompt[{at}]"
            raise bad_request(f"{where}: is empty", where)
    return prompts


def _answers(
    service: Service, body: CompletionBody, prompts: list[Prompt], inbox: Inbox
) -> list[Answer]:
    params, deadline = choices_of(_params(service, body), body.n or 1), service.deadline()
    answers: list[Answer] = []
    for at, prompt in enumerate(prompts):
        where = f"prompt[{at}]" if len(prompts) > 1 else "prompt"
        with blaming(where, "response_format"):
            for each in params:
                sink = inbox.sink(len(answers))
                answers.append(service.llm.request(prompt, each, sink=sink, deadline=deadline))
    return answers


def _params(service: Service, body: CompletionBody) -> SamplingParams:
    limit = body.max_tokens
    if limit is None:
        own = service.default("max_tokens")
        limit = int(own) if own is not None else _DEFAULT_TOKENS
    scores = body.echo and (body.logprobs is not None or limit == 0)
    return params_of(
        service,
        body,
        max_tokens=limit,
        logprobs=body.logprobs,
        prompt_logprobs=(body.logprobs or 0) if scores else None,
        structure=structure_of(body.response_format),
    )


class CompletionWriter:
    """An answer in OpenAI's older form."""

    def __init__(self, turn: Turn, body: CompletionBody, prompts: Sequence[Prompt]) -> None:
        self._turn, self._body = turn, body
        self._id = f"cmpl-{secrets.token_hex(12)}"
        self._created = int(time.time())
        names = TokenNames(turn.service.llm.tokenizer)
        self._echoes = [self._echo(prompts[i // turn.each]) for i in range(len(turn.readers))]
        self._logprobs = [TextLogprobsWriter(names) for _ in turn.readers]

    def _echo(self, prompt: Prompt) -> str:
        if not self._body.echo:
            return ""
        tokenizer = self._turn.service.llm.tokenizer
        if isinstance(prompt, str):
            return prompt
        return "" if tokenizer is None else tokenizer.decode(prompt, skip_special_tokens=False)

    def begin(self) -> Iterator[bytes]:
        if not self._body.echo:
            return
        for index, echo in enumerate(self._echoes):
            yield self._chunk(index, echo, self._first(index), None)

    def piece(self, index: int, piece: Piece) -> Iterator[bytes]:
        logprobs = self._written(index, piece)
        text = piece.reasoning + piece.text
        if text or piece.reason or (logprobs is not None and logprobs.tokens):
            yield self._chunk(index, text, logprobs, _reason(piece.reason))

    def end(self) -> Iterator[bytes]:
        if self._body.wants_usage:
            yield stream.data(self._envelope([], usage_of(self._turn.readers, self._turn.each)))
        yield stream.DONE

    def error(self, error: ApiError) -> bytes:
        return b"data: " + error.openai() + b"\n\n"

    def whole(self, wholes: Sequence[Whole]) -> TextCompletion:
        choices = [self._choice(i, whole) for i, whole in enumerate(wholes)]
        return self._envelope(choices, usage_of(self._turn.readers, self._turn.each), whole=True)

    def _choice(self, index: int, whole: Whole) -> TextChoice:
        parts = [self._first(index), self._written(index, whole)]
        said = [part for part in parts if part is not None]
        return TextChoice(
            index=index,
            text=self._echoes[index] + whole.reasoning + whole.text,
            logprobs=joined(said) if said else None,
            finish_reason=cast(Any, _reason(whole.reason)),
        )

    def _first(self, index: int) -> TextLogprobs | None:
        if not self._body.echo or self._body.logprobs is None:
            return None
        return self._logprobs[index].first(self._turn.readers[index].request.prompt_ids[0])

    def _written(self, index: int, piece: Piece | Whole) -> TextLogprobs | None:
        if self._body.logprobs is None:
            return None
        return self._logprobs[index].write([*piece.prompt_logprobs, *piece.logprobs])

    def _chunk(
        self, index: int, text: str, logprobs: TextLogprobs | None, reason: str | None
    ) -> bytes:
        choice = TextChoice(
            index=index, text=text, logprobs=logprobs, finish_reason=cast(Any, reason)
        )
        return stream.data(self._envelope([choice], None))

    def _envelope(
        self, choices: list[TextChoice], usage: Any, *, whole: bool = False
    ) -> TextCompletion:
        return TextCompletion(
            id=self._id,
            object="text_completion",
            created=self._created,
            model=self._turn.service.model_id,
            system_fingerprint=self._turn.service.fingerprint,
            choices=choices,
            usage=usage if whole or self._body.wants_usage else UNSET,
        )


def _reason(reason: str | None) -> str | None:
    return "stop" if reason == "tool_calls" else reason

"""From the fields of a request to SamplingParams: what is asked for, else the operator's or the
model's own default."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from colibri.config.sampling import NUMBER_BY_NAME
from colibri.errors import ColibriError, GrammarError
from colibri.server.http.errors import as_api_error, bad_request
from colibri.server.http.places import without_places
from colibri.server.service import Service
from colibri.server.structs.base import CachedTokens, Sampling, Usage, WrittenTokens
from colibri.server.structs.formats import (
    ChoiceFormat,
    GrammarFormat,
    JsonObjectFormat,
    JsonSchemaFormat,
    RegexFormat,
    ResponseFormat,
    TextFormat,
)
from colibri.words import count

if TYPE_CHECKING:
    from colibri.answer import Answer
    from colibri.sampling import SamplingParams
    from colibri.server.pieces import PieceReader

_THEIRS = {"variables": "chat_template_kwargs"}  # names of ours that clients have others for
_FIELD = re.compile(r"\w+")
_MOST_TOKENS = 2**31 - 1
_LONGEST_NOTICE = 2000  # characters: a header has bounds, the names of tools in it have none
_LEAST_DEFAULT = 256  # tokens of an answer for which nobody set a limit
# Fields of a request that mean what SamplingParams means by them.
_SAME = sorted(
    {*Sampling.__struct_fields__} & {*NUMBER_BY_NAME, "logit_bias", "ignore_eos"} - {"seed"}
)


def params_of(service: Service, body: Sampling, **more: Any) -> SamplingParams:
    """`more`: fields of SamplingParams by their own names; None is not given."""
    asked = {name: getattr(body, name) for name in _SAME} | more
    if body.seed is not None:
        asked["seed"] = body.seed % 2**64
    if body.stop is not None:
        asked["stop"] = (body.stop,) if isinstance(body.stop, str) else tuple(body.stop)
    return with_fields(service.default_params, asked)


def with_fields(defaults: SamplingParams, asked: dict[str, Any]) -> SamplingParams:
    given = {name: value for name, value in asked.items() if value is not None}
    if "max_tokens" in given:
        given["max_tokens"] = min(given["max_tokens"], _MOST_TOKENS)
    return replace(defaults, **given)


def default_max_tokens(service: Service) -> int:
    """A quarter of the context, so that several conversations have room at once, unless somebody
    said otherwise."""
    own = service.default("max_tokens")
    return int(own) if own is not None else max(_LEAST_DEFAULT, service.llm.plan.context // 4)


def choices_of(params: SamplingParams, n: int) -> list[SamplingParams]:
    """n answers to one prompt: with a seed, the second has the next seed and so on."""
    if params.seed is None:
        return [params] * n
    return [replace(params, seed=(params.seed + i) % 2**64) for i in range(n)]


def notice_of(service: Service, answers: Sequence[Answer], asked: int | None) -> dict[str, str]:
    """The header that says what is done otherwise than asked."""
    context = service.llm.plan.context
    room = min(context - len(answer.request.prompt_ids) for answer in answers)
    notes = list(answers[0].notes)
    if asked is not None and asked > room:
        notes.append(
            f"max_tokens {asked} is more than the context of {count(context, 'token')} leaves "
            f"after the prompt; the answer ends after {room}"
        )
    if not notes:
        return {}
    text = "; ".join(ascii(without_places(note, service.places()))[1:-1] for note in notes)
    return {"x-colibri-notice": text[:_LONGEST_NOTICE]}


def check_openai(body: Sampling) -> None:
    if body.stream_options is not None:
        if not body.streams:
            raise bad_request("stream_options: only with stream", "stream_options")
        if body.stream_options.include_obfuscation:
            raise bad_request(
                "stream_options.include_obfuscation: not supported here",
                "stream_options.include_obfuscation",
                "unsupported_parameter",
            )


def usage_of(readers: Sequence[PieceReader], each: int) -> Usage:
    """Of all choices; a prompt counts once however many answers it has, `each` of them."""
    read = sum(len(reader.request.prompt_ids) for reader in readers[::each])
    cached = sum(reader.request.cached_tokens for reader in readers[::each])
    written = sum(reader.tokens for reader in readers)
    return Usage(
        prompt_tokens=read,
        completion_tokens=written,
        total_tokens=read + written,
        prompt_tokens_details=CachedTokens(cached_tokens=cached),
        completion_tokens_details=WrittenTokens(
            reasoning_tokens=sum(reader.reasoning_tokens for reader in readers)
        ),
    )


@contextmanager
def blaming(
    prompt: str, structure: str | None = None, theirs: Mapping[str, str] = _THEIRS
) -> Iterator[None]:
    """Names the field of a refusal that does not name it itself: `structure` if that is what cannot
    be enforced, else `prompt`, which is too long or which the model's template refuses. theirs: how
    the client put what a refusal names."""
    try:
        yield
    except ColibriError as error:
        refusal = as_api_error(error)
        if refusal.status == 400:
            blamed = structure if isinstance(error, GrammarError) else refusal.param
            refusal.param = _FIELD.sub(
                lambda field: theirs.get(field[0], field[0]), blamed or prompt, count=1
            )
        raise refusal from None


def structure_of(asked: ResponseFormat | None) -> Any:
    """What the answer must be, as the grammars take it; None: any text."""
    if asked is None or isinstance(asked, TextFormat):
        return None
    from colibri.grammar.structure import Structure

    match asked:
        case JsonObjectFormat():
            return Structure.json_object()
        case JsonSchemaFormat():
            return Structure.json_schema(asked.json_schema.schema)
        case GrammarFormat():
            return Structure(asked.syntax or "lark", asked.grammar)
        case RegexFormat():
            return Structure("regex", asked.pattern)
        case ChoiceFormat():
            return Structure.choice(asked.options)

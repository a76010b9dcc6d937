"""POST /v1/score (alias /v1/brio): closed questions, answered by how likely each option is."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response

from colibri.engine.request import PrefillProgress
from colibri.server.colibri.structs import (
    Answered,
    FieldScore,
    Normalize,
    ScoreAnswers,
    ScoreBody,
    ScoreChoice,
    ScoredChoice,
    ScoreSchema,
    ScoreUsage,
)
from colibri.server.http.body import read
from colibri.server.http.errors import bad_request
from colibri.server.http.reply import Json
from colibri.server.http.stream import unless_gone
from colibri.server.live import Exchange
from colibri.server.log import Record
from colibri.server.openai.messages import as_template_takes
from colibri.server.sampling import blaming
from colibri.server.service import Service

if TYPE_CHECKING:
    from colibri.llm.scores import Scores

_POLL_SECONDS = 60.0


async def score(request: Request, service: Service) -> Response:
    body = await read(request, ScoreBody, service.config)
    service.check_model(body.model)
    check(body)
    kind = request.url.path.rpartition("/")[2]
    asker = _Asker(service, body, kind, request.scope["colibri"])
    with service.answering(asker):
        made = await unless_gone(request, asker.answer())
    return Json(made)


def check(body: ScoreBody) -> None:
    """What the form of the fields does not say."""
    forms = [name for name in ("options", "questions", "schema") if getattr(body, name) is not None]
    if len(forms) != 1:
        said = f"{' and '.join(forms)} are given" if forms else "none is given"
        raise bad_request(f"one of options, questions and schema is needed; {said}", "options")
    if (body.state is None) == (body.messages is None):
        raise bad_request("one of state and messages is needed", "state")
    if body.question is not None and body.options is None:
        raise bad_request("question: only with options", "question")
    if body.task is not None and body.schema is None:
        raise bad_request("task: only with schema", "task")
    lists = [("options", body.options)] if body.options else []
    lists += [(f"questions[{i}].options", q.options) for i, q in enumerate(body.questions or ())]
    lists += [
        (f"schema.{name}", [json.dumps(value) for value in values])
        for name, values in (body.schema or {}).items()
    ]
    for where, options in lists:
        first: dict[str, int] = {}
        for at, option in enumerate(options):
            if (known := first.setdefault(option, at)) != at:
                raise bad_request(
                    f"{where}[{at}]: the same as {where}[{known}]; give each option once",
                    f"{where}[{at}]",
                )


class _Asker:
    """Asks one question after the other: what they share is read once, for the first."""

    def __init__(self, service: Service, body: ScoreBody, kind: str, record: Record) -> None:
        self.service, self.body, self.kind = service, body, kind
        self._llm = service.llm  # once: a server that ends lets all questions be answered
        self._record = record
        self._exchange: Exchange | None = None
        self._aborted: BaseException | None = None
        self._prompt_tokens = self._read_tokens = self._completion_tokens = 0

    def abort(self, error: BaseException) -> None:
        """End the question that is asked, and ask no more."""
        self._aborted = error
        if self._exchange is not None:
            self._exchange.abort(error)

    async def answer(self) -> ScoreChoice | ScoreAnswers | ScoreSchema:
        body = self.body
        if body.schema is not None:
            return await self._schema(body.schema)
        if body.questions is not None:
            answers = [
                self._answered(
                    q.question,
                    await self._ask(
                        q.question, q.options, f"questions[{i}].options", normalize=q.normalize
                    ),
                )
                for i, q in enumerate(body.questions)
            ]
            return ScoreAnswers(
                object=f"{self.kind}.answers",
                model=self.service.model_id,
                answers=answers,
                usage=self._usage(),
            )
        scores = await self._ask(body.question, body.options or [], "options")
        one = self._answered(None, scores)
        return ScoreChoice(
            object=f"{self.kind}.choice",
            model=self.service.model_id,
            answer=one.answer,
            entropy=one.entropy,
            choices=one.choices,
            lead_in=one.lead_in,
            warnings=one.warnings,
            usage=self._usage(),
        )

    async def _schema(self, schema: Mapping[str, Sequence[Any]]) -> ScoreSchema:
        """The object is written field by field, each after what was chosen before it."""
        task = self.body.task or f"Answer with a JSON object with the keys {', '.join(schema)}."
        begun, chosen, fields = "{", dict[str, Any](), list[FieldScore]()
        for name, values in schema.items():
            begun += f"{', ' if chosen else ''}{json.dumps(name, ensure_ascii=False)}: "
            options = [json.dumps(value, ensure_ascii=False) for value in values]
            scores = await self._ask(task, options, f"schema.{name}", begun=begun)
            best = scores.choices.index(scores.best)
            begun, chosen[name] = begun + options[best], values[best]
            fields.append(
                FieldScore(
                    field=name,
                    value=values[best],
                    p=scores.best.p,
                    entropy=scores.entropy,
                    choices=_choices(scores),
                    warnings=list(scores.warnings),
                )
            )
        return ScoreSchema(
            object=f"{self.kind}.schema",
            model=self.service.model_id,
            json=chosen,
            fields=fields,
            usage=self._usage(),
        )

    async def _ask(
        self,
        question: str | None,
        options: Sequence[str],
        field: str,
        *,
        normalize: Normalize | None = None,
        begun: str = "",
    ) -> Scores:
        """field: which has the options."""
        context, chat = self._context(question)
        if context is None and not begun:
            first = partial(self._llm.lead_in_request, options=options, **chat)
            chat = {"lead_in": await self._run(first, field)}
        make = partial(
            self._llm.score_request,
            context,
            options,
            normalize=normalize or self.body.normalize or "sum",
            begun=begun,
            **chat,
        )
        scores: Scores = await self._run(make, field)
        self._count(scores)
        return scores

    async def _run(self, make: Callable[..., Any], field: str) -> Any:
        """What comes of the LeadIn or Scoring that `make` prepares."""
        service, inbox = self.service, self.service.inbox()
        prompt = "state" if self.body.messages is None else "messages"
        directed = partial(make, sink=inbox.sink(0), deadline=service.deadline())
        with blaming(prompt, theirs={"options": field}):
            asked = await service.work(directed)
        self._exchange = service.exchange([asked], inbox)
        if self._aborted is not None:
            raise self._aborted
        self._exchange.start()
        made: Any = None
        async with aclosing(self._exchange.events(_POLL_SECONDS)) as events:  # type: ignore[type-var]
            async for event in events:
                if event is not None and not isinstance(event[1], PrefillProgress):
                    made = event[1]
        return made

    def _count(self, scores: Scores) -> None:
        self._prompt_tokens += scores.prompt_tokens
        self._read_tokens += scores.read_tokens
        self._completion_tokens += scores.generated_tokens
        metrics = self.service.metrics
        metrics.prompt_tokens.inc(scores.prompt_tokens)
        metrics.cached_tokens.inc(scores.cached_tokens)
        self._record.read(scores.prompt_tokens, scores.cached_tokens)

    def _usage(self) -> ScoreUsage:
        return ScoreUsage(
            prompt_tokens=self._prompt_tokens,
            completion_tokens=self._completion_tokens,
            read_tokens=self._read_tokens,
            total_tokens=self._prompt_tokens + self._completion_tokens,
        )

    def _context(self, question: str | None) -> tuple[str | None, dict[str, Any]]:
        """Text as it is where there is no question; with one, a conversation where the model knows
        how, in which the answer comes at once."""
        body = self.body
        if body.messages is not None:
            messages = [as_template_takes(message) for message in body.messages]
            if question is not None:
                messages.append({"role": "user", "content": question})
            return None, {"messages": messages, "thinking": False}
        if question is None:
            return body.state, {}
        text = f"{body.state}\n\n{question}"
        if self._llm.chat_format is None:
            return f"{text}\n", {}
        return None, {"messages": [{"role": "user", "content": text}], "thinking": False}

    def _answered(self, question: str | None, scores: Scores) -> Answered:
        return Answered(
            question=question,
            answer=scores.best.option,
            entropy=scores.entropy,
            choices=_choices(scores),
            lead_in=scores.lead_in,
            warnings=list(scores.warnings),
        )


def _choices(scores: Scores) -> list[ScoredChoice]:
    return [
        ScoredChoice(
            option=choice.option,
            p=choice.p,
            logprob=choice.logprob,
            mean_logprob=choice.mean_logprob,
            tokens=choice.tokens,
        )
        for choice in scores.choices
    ]

"""Answers of a server that speaks OpenAI's API, ours with all that it tells."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

from colibri.cli import figures
from colibri.cli.talk.backend import Wishes
from colibri.cli.talk.http import Client
from colibri.errors import ColibriError
from colibri.text.notes import SaidOnce

if TYPE_CHECKING:
    from colibri.answer import Chunk
    from colibri.cli.generation import Answer, OnProgress
    from colibri.engine.request import PrefillProgress
    from colibri.llm.scores import Scores


class Attached:
    """Raises on the first use what keeps one from using the server at all."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._usage: dict[str, Any] = {}
        self._said = SaidOnce()
        models = client.get("/v1/models").get("data")
        first = models[0] if isinstance(models, list) and models else None
        if not isinstance(first, dict) or not isinstance(first.get("id"), str):
            raise ColibriError(f"{client.url}: names no model (GET /v1/models)")
        self.model: str = first["id"]
        self.line = f"{self.model} at {client.url}"
        if isinstance(description := first.get("description"), str):
            self.line += f": {description}"

    def stream(
        self,
        messages: Sequence[Mapping[str, Any]],
        wishes: Wishes,
        on_progress: OnProgress | None,
    ) -> Iterator[Chunk]:
        self._usage, began = {}, time.perf_counter()
        body = self._body(messages, wishes)
        ended = False
        with closing(self._client.events("/v1/chat/completions", body)) as events:  # type: ignore[type-var]
            for event in events:
                self._said.warn([self._client.notice])
                if event.comment:
                    progress = _progress(event.data, time.perf_counter() - began)
                    if progress is not None and on_progress is not None:
                        on_progress(progress)
                elif event.data == "[DONE]":
                    break
                elif (chunk := self._chunk(event.data)) is not None:
                    ended = ended or chunk.finish_reason is not None
                    yield chunk
        if not ended:
            raise ColibriError(f"{self._client.url}: the connection ended before the answer did")

    def score(self, messages: Sequence[Mapping[str, Any]], options: Sequence[str]) -> Scores:
        from colibri.llm.scores import Choice, Scores

        body = {"model": self.model, "messages": list(messages), "options": list(options)}
        said = self._client.post("/v1/score", body)
        try:
            usage = said["usage"]
            return Scores(
                choices=tuple(Choice(**choice) for choice in said["choices"]),
                entropy=float(said["entropy"]),
                prompt_tokens=int(usage["prompt_tokens"]),
                cached_tokens=0,
                read_tokens=int(usage["read_tokens"]),
                warnings=tuple(map(str, said["warnings"])),
            )
        except (KeyError, TypeError, ValueError):
            raise ColibriError(f"{self._client.url}: its scores are in no known form") from None

    def tokens(self, answer: Answer) -> int:
        count = self._usage.get("completion_tokens")
        return count if isinstance(count, int) else 0

    def facts(self, answer: Answer) -> list[str]:
        """As the server counts, and as the time went here."""
        first, usage = answer.ttft_seconds, self._usage
        decoding = answer.seconds - (first or 0.0)
        waited = "" if first is None else f", first token after {figures.duration(first)}"
        details = usage.get("prompt_tokens_details")
        known = details.get("cached_tokens", 0) if isinstance(details, dict) else 0
        prompt, written = "not told", "not told"
        if usage:
            prompt = f"{_tokens(usage.get('prompt_tokens'))}, {known} of them known before"
            written = figures.count(self.tokens(answer), "token")
        rate = figures.rate(max(0, self.tokens(answer) - 1), decoding, "tok/s")
        return [
            f"prompt   {prompt}{waited}",
            f"answer   {written} in {figures.duration(decoding)}"
            f"{f' ({rate})' if usage else ''}, ended by {answer.finish_reason}",
            f"server   {self.line}",
        ]

    def _body(self, messages: Sequence[Mapping[str, Any]], wishes: Wishes) -> dict[str, Any]:
        given, options = dict(wishes.given), wishes.options
        body: dict[str, Any] = {
            "model": self.model,
            "messages": list(messages),
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if (structure := given.pop("structure", None)) is not None:
            body["response_format"] = _format(structure.kind, structure.source)
        if (thinking := options.get("thinking")) is not None:
            body["enable_thinking"] = thinking
        if (effort := options.get("reasoning_effort")) is not None:
            body["reasoning_effort"] = effort
        return body | given

    def _chunk(self, data: str) -> Chunk | None:
        from colibri.answer import Chunk

        frame = self._client.parsed(data)
        if frame.get("error") is not None:
            raise self._client.refusal(frame["error"])
        if isinstance(frame.get("usage"), dict):
            self._usage = frame["usage"]
        choices = frame.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        if not isinstance(choice, dict):
            return None
        delta = choice.get("delta")
        delta = delta if isinstance(delta, dict) else {}
        thought = delta.get("reasoning_content") or delta.get("reasoning")
        reason = choice.get("finish_reason")
        return Chunk(
            _text(delta.get("content")),
            (),
            reason if isinstance(reason, str) else None,
            reasoning=_text(thought),
        )


def _tokens(number: Any) -> str:
    """Whatever a server says it is."""
    return figures.count(number, "token") if isinstance(number, int) else f"{number} tokens"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _progress(comment: str, seconds: float) -> PrefillProgress | None:
    """What our server says while it reads the prompt; others say other things, or nothing."""
    from colibri.engine.request import PrefillProgress

    try:
        said = json.loads(comment)
        if said["state"] != "prefill":
            return None
        eta = said["eta_seconds"]
        done, total = int(said["tokens_done"]), int(said["tokens_total"])
        left = None if eta is None else float(eta)
    except (ValueError, KeyError, TypeError):
        return None
    return PrefillProgress(done, total, 0, 0, 0, seconds, left)


def _format(kind: str, source: str) -> dict[str, Any]:
    """A Structure as our server takes it."""
    match kind:
        case "json_schema":
            return {"type": kind, "json_schema": {"schema": json.loads(source)}}
        case "lark" | "gbnf":
            return {"type": "grammar", "grammar": source, "syntax": kind}
        case "regex":
            return {"type": kind, "pattern": source}
        case "choice":
            return {"type": kind, "options": json.loads(source)}
        case _:
            return {"type": kind}

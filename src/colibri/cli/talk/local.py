"""Answers of a model loaded into this process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from colibri.cli import report
from colibri.cli.options import with_given
from colibri.cli.talk.backend import Wishes

if TYPE_CHECKING:
    from colibri.answer import Chunk
    from colibri.cli.generation import Answer, OnProgress
    from colibri.llm import LLM
    from colibri.llm.scores import Scores


class Local:
    def __init__(self, llm: LLM) -> None:
        self._llm = llm
        self._before = llm.stats()

    def stream(
        self,
        messages: Sequence[Mapping[str, Any]],
        wishes: Wishes,
        on_progress: OnProgress | None,
    ) -> Iterator[Chunk]:
        self._before = self._llm.stats()
        params = with_given(self._llm.default_params, wishes.given)
        return self._llm.stream_chat(messages, params, on_progress=on_progress, **wishes.options)

    def score(self, messages: Sequence[Mapping[str, Any]], options: Sequence[str]) -> Scores:
        # Reasoning would stand between the question and the option.
        return self._llm.score_choices(None, options, messages=messages, thinking=False)

    def tokens(self, answer: Answer) -> int:
        return len(answer.token_ids)

    def facts(self, answer: Answer) -> list[str]:
        stats = report.since(self._llm.stats(), self._before)
        return report.closing_lines(stats, answer, self._llm.plan.budget_bytes)

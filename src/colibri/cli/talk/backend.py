"""Where a conversation's answers come from: a model loaded here, or a server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from colibri.answer import Chunk
    from colibri.cli.generation import Answer, OnProgress
    from colibri.llm.scores import Scores
    from colibri.text.chat import ChatOptions

Message = dict[str, Any]


def _no_options() -> ChatOptions:
    return {}


@dataclass
class Wishes:
    """What is asked for of each answer. given: fields of SamplingParams; others are left to the
    model or the server."""

    given: dict[str, Any] = field(default_factory=dict)
    options: ChatOptions = field(default_factory=_no_options)


class Backend(Protocol):
    def stream(
        self,
        messages: Sequence[Mapping[str, Any]],
        wishes: Wishes,
        on_progress: OnProgress | None,
    ) -> Iterator[Chunk]:
        """The answer as it is made. Closing the iterator ends it."""
        ...

    def score(self, messages: Sequence[Mapping[str, Any]], options: Sequence[str]) -> Scores:
        """How likely each option is to be the answer."""
        ...

    def tokens(self, answer: Answer) -> int:
        """Of the answer that stream() gave last."""
        ...

    def facts(self, answer: Answer) -> list[str]:
        """What the answer that stream() gave last did cost, line by line."""
        ...

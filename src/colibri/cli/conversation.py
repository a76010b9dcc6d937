"""The state of one `coli chat`: messages, and what each turn adds to them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from colibri.cli import report, terminal
from colibri.cli.generation import Answer, write_stream

if TYPE_CHECKING:
    from colibri.llm import LLM
    from colibri.sampling import SamplingParams
    from colibri.text.chat import ChatOptions


def _no_options() -> ChatOptions:
    return {}


@dataclass
class Conversation:
    llm: LLM
    params: SamplingParams
    system: str | None
    quiet: bool  # no progress, no remarks
    options: ChatOptions = field(default_factory=_no_options)
    messages: list[dict[str, Any]] = field(default_factory=list)
    last_turn: list[str] = field(default_factory=list)  # lines of /stats

    def __post_init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.messages = [{"role": "system", "content": self.system}] if self.system else []

    def ask(self, text: str) -> None:
        """Stream the answer to stdout.

        An interrupted answer stays in the conversation as far as it came, and KeyboardInterrupt
        goes on to the caller; after an error the question is taken back.
        """
        self.messages.append({"role": "user", "content": text})
        answer, before = Answer(), self.llm.stats()
        kept = False
        try:
            write_stream(
                lambda on_progress: self.llm.stream_chat(
                    self.messages, self.params, on_progress=on_progress, **self.options
                ),
                answer,
                quiet=self.quiet,
            )
            kept = True
        except KeyboardInterrupt:
            kept = bool(answer.text)
            raise
        finally:
            if answer.text:
                terminal.write_answer("\n")
            if answer.finish_reason == "length" and not self.quiet:
                terminal.say(f"({report.CUT_OFF})")
            self._close_turn(answer, kept)
            stats = report.since(self.llm.stats(), before)
            self.last_turn = report.closing_lines(stats, answer, self.llm.plan.budget_bytes)

    def _close_turn(self, answer: Answer, kept: bool) -> None:
        if kept:
            message = {"role": "assistant", "content": answer.text}
            if answer.reasoning:
                message["reasoning_content"] = answer.reasoning
            self.messages.append(message)
        else:
            self.messages.pop()

"""The state of one `coli chat`: messages, what each turn adds to them, and the way back."""

from __future__ import annotations

from dataclasses import dataclass, field

from colibri.cli import figures, report, terminal
from colibri.cli.generation import Answer, Plain, Show, write_stream
from colibri.cli.structure import cut_off, is_beginning
from colibri.cli.talk.backend import Backend, Message, Wishes
from colibri.cli.talk.screen import Look, Screen
from colibri.errors import ConfigError


@dataclass
class Conversation:
    """look: of a person's screen; None: answers as they are, for a pipe."""

    backend: Backend
    wishes: Wishes
    system: str | None
    quiet: bool  # no progress, no remarks
    look: Look | None = None
    messages: list[Message] = field(default_factory=list)
    last: Answer | None = None
    last_turn: list[str] = field(default_factory=list)  # lines of /stats
    _earlier: list[list[Message]] = field(default_factory=list)  # for /undo

    def __post_init__(self) -> None:
        self.messages = self._beginning()

    def clear(self) -> None:
        self.replace(self._beginning())

    def replace(self, messages: list[Message]) -> None:
        """Go on with these; undo() returns to those before."""
        self._earlier.append(self.messages)
        self.messages = messages

    def undo(self) -> None:
        """As before the last turn or change. Raises ConfigError where there was none."""
        if not self._earlier:
            raise ConfigError("nothing to undo")
        self.messages = self._earlier.pop()

    def instruct(self, system: str | None) -> None:
        """Another system message, from the next answer on; None: without one."""
        self.system = system
        self.replace(self._beginning() + [m for m in self.messages if m["role"] != "system"])

    def ask(self, text: str) -> None:
        """Stream the answer to stdout.

        An interrupted answer stays in the conversation as far as it came, and KeyboardInterrupt
        goes on to the caller; after an error the question is taken back.
        """
        self._answer([*self.messages, {"role": "user", "content": text}])

    def regenerate(self) -> None:
        """Another answer to the last question."""
        self._answer(self.to_the_last_question())

    def to_the_last_question(self) -> list[Message]:
        """Raises ConfigError where there is none."""
        asked = [at for at, message in enumerate(self.messages) if message["role"] == "user"]
        if not asked:
            raise ConfigError("there is no question yet")
        return self.messages[: asked[-1] + 1]

    def _beginning(self) -> list[Message]:
        return [{"role": "system", "content": self.system}] if self.system else []

    def _answer(self, messages: list[Message]) -> None:
        answer, kept = Answer(), False
        try:
            write_stream(
                lambda on_progress: self.backend.stream(messages, self.wishes, on_progress),
                answer,
                quiet=self.quiet,
                show=self._show(),
            )
            kept = True
        except KeyboardInterrupt:
            kept = bool(answer.text)
            raise
        finally:
            if answer.text:
                terminal.write_answer("\n")
            if kept:
                self.replace([*messages, _message(answer)])
            self._close(answer)

    def _show(self) -> Show:
        return Plain(self.quiet) if self.look is None else Screen(self.look)

    def _close(self, answer: Answer) -> None:
        self.last, self.last_turn = answer, self.backend.facts(answer)
        if is_beginning(answer, self.wishes.given.get("structure")):
            terminal.say(f"coli: warning: {cut_off(answer)}")
        if self.quiet:
            return
        if answer.finish_reason == "length":
            terminal.say(f"({report.CUT_OFF})")
        if self.look is not None and self.look.speed and answer.ttft_seconds is not None:
            terminal.say(f"({_speed(answer, self.backend.tokens(answer))})")


def _message(answer: Answer) -> Message:
    message = {"role": "assistant", "content": answer.text}
    if answer.reasoning:
        message["reasoning_content"] = answer.reasoning
    return message


def _speed(answer: Answer, tokens: int) -> str:
    first = answer.ttft_seconds or 0.0
    rate = figures.rate(max(0, tokens - 1), answer.seconds - first, "tok/s")
    return f"{figures.count(tokens, 'token')}, {rate}, first after {figures.duration(first)}"

"""/brio: a closed question, answered by how likely each answer is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from colibri.cli import terminal
from colibri.cli.choices import table
from colibri.errors import ConfigError

if TYPE_CHECKING:
    from colibri.cli.talk.conversation import Conversation

FORM = "/brio QUESTION? a | b | c"


def parse(text: str) -> tuple[str, list[str]]:
    """The question, which ends with the first part's last "?", and the options."""
    first, *rest = (part.strip() for part in text.split("|"))
    question, mark, option = first.rpartition("?")
    options = [part for part in (option.strip(), *rest) if part]
    if len(options) < 2:
        raise ConfigError(f"{FORM}: two options or more, with | between them")
    return (question + mark).strip(), options


def answer(conversation: Conversation, text: str) -> None:
    """The conversation stays as it is. Without a question it is the last one that is answered."""
    question, options = parse(text)
    if len(set(options)) < len(options):
        raise ConfigError(f"{FORM}: an option is there twice")
    if question:
        messages = [*conversation.messages, {"role": "user", "content": question}]
    else:
        messages = conversation.to_the_last_question()
    scores = conversation.backend.score(messages, options)
    for warning in scores.warnings:
        terminal.say(f"coli: warning: {warning}")
    terminal.write_answer(table(scores))

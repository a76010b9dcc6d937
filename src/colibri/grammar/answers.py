"""The stages of an answer: reasoning, text, tool calls and the structure asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from colibri.grammar.matcher import Bound, Free, Stages
from colibri.grammar.structure import Structure

if TYPE_CHECKING:
    from colibri.grammar.compiler import Grammar

Compile = Callable[[Structure], "Grammar"]
First = tuple[str, ...]


@dataclass(frozen=True)
class CallRules:
    """How a model writes tool calls. call: one of them, from behind its opening mark to its end;
    calls: all of them. must: whether there has to be one, and nothing else; several: whether more
    than one may come."""

    opening: str
    call: Structure
    calls: Structure
    must: bool
    several: bool


@dataclass(frozen=True)
class Thinking:
    """How a model marks its reasoning. inside: the prompt leaves off within it (True), behind it
    (False), or the model itself may begin it (None). opening: what matches its opening mark."""

    inside: bool | None
    opening: Structure
    opening_mark: str
    closing_mark: str


@dataclass(frozen=True)
class AnswerForm:
    """What an answer is made of. Where both a structure and calls may come, it is one or the
    other."""

    structure: Structure | None = None
    calls: CallRules | None = None
    thinking: Thinking | None = None


FREE = AnswerForm()


def stages_of(form: AnswerForm, compiled: Compile) -> tuple[Stages, First]:
    """The stages, and those in which the answer may begin."""
    if form.structure is None and form.calls is not None and not form.calls.must:
        return _free_with_calls(form.calls, form.thinking, compiled)
    stages: dict[str, Free | Bound] = {}
    if form.structure is not None and not (form.calls and form.calls.must):
        stages["body"] = Bound(compiled(form.structure))
    if form.calls is not None:
        stages["calls"] = Bound(compiled(form.calls.calls))
    first = tuple(stages)
    if form.thinking is None:
        return stages, first
    return _behind_reasoning(stages, first, form.thinking, compiled)


def _behind_reasoning(
    stages: dict[str, Free | Bound], first: First, thinking: Thinking, compiled: Compile
) -> tuple[Stages, First]:
    """Line breaks between the reasoning and what follows belong to neither."""
    for breaks in ("\n", "\n\n"):
        stages[breaks] = Bound(compiled(Structure.choice([breaks])), first)
    behind = (*first, "\n", "\n\n")
    stages["reasoning"] = Free({thinking.closing_mark.encode(): behind}, may_end=False)
    if thinking.inside:
        return stages, ("reasoning",)
    if thinking.inside is None:
        stages["think"] = Bound(compiled(thinking.opening), ("reasoning",))
        return stages, (*first, "think")
    return stages, behind


def _free_with_calls(
    calls: CallRules, thinking: Thinking | None, compiled: Compile
) -> tuple[Stages, First]:
    opening = {calls.opening.encode(): ("call",)}
    stages: dict[str, Free | Bound] = {
        "call": Bound(compiled(calls.call), ("text",) if calls.several else ()),
        "text": Free(opening, may_end=True),
    }
    if thinking is None or thinking.inside is False:
        return stages, ("text",)
    stages["reasoning"] = Free({thinking.closing_mark.encode(): ("text",)}, may_end=True)
    if thinking.inside:
        return stages, ("reasoning",)
    stages["start"] = Free({**opening, thinking.opening_mark.encode(): ("reasoning",)}, True)
    return stages, ("start",)

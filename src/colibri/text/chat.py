"""What a conversation with a model can have: its template, reasoning, tools; and how to ask."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any, TypedDict

from colibri.errors import ConfigError
from colibri.grammar.answers import Thinking
from colibri.grammar.structure import Structure
from colibri.text.builtin import built_in
from colibri.text.effort import check_effort, effort_for, levels_of
from colibri.text.history import ArgumentForms, History, Message, prepared
from colibri.text.parts import AnswerParser
from colibri.text.reasoning import ReasoningSplitter, tags_of
from colibri.text.special import load_special_tokens
from colibri.text.template import ChatTemplate, check_messages, find_sources
from colibri.text.tokenizer import Tokenizer
from colibri.text.tools.base import ToolCalls
from colibri.text.tools.choice import ChoiceRules, check_choice, choice_rules
from colibri.text.tools.formats import FORMATS, tool_format
from colibri.text.tools.rules import Rules
from colibri.text.tools.schema import ToolSchemas

_MARKERS = ("<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", "<tool_call>", "</tool_call>")

_SWITCHES = frozenset({"enable_thinking", "thinking"})  # templates' names of one switch


class ChatOptions(TypedDict, total=False):
    """The keyword arguments of a chat: what may be asked of one answer besides the messages."""

    tools: Sequence[Mapping[str, Any]] | None
    """The tools on offer, in OpenAI's form: {"type": "function", "function": {"name",
    "description", "parameters"}}."""
    tool_choice: str | Mapping[str, Any]
    """The default, "auto", leaves it to the model. "none" does not offer the tools. "required"
    demands one call or several and nothing else. {"type": "function", "function": {"name": ...}}
    demands one call of that tool."""
    parallel_tool_calls: bool
    """Whether there may be several calls in one answer; by default there may."""
    thinking: bool | None
    """Whether the model reasons before it answers. None leaves it to the template."""
    reasoning_effort: str | None
    """How much it reasons: none, minimal, low, medium, high, xhigh or max. None leaves it to the
    template."""
    variables: Mapping[str, Any]
    """Further variables of the template."""


@dataclass(frozen=True)
class ChatRequest:
    """ChatOptions, checked: ConfigError names what is wrong."""

    tools: Sequence[Mapping[str, Any]] | None = None
    tool_choice: str | Mapping[str, Any] = "auto"
    parallel_tool_calls: bool = True
    thinking: bool | None = None
    reasoning_effort: str | None = None
    variables: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, options: ChatOptions) -> "ChatRequest":
        known = [item.name for item in fields(cls)]
        for name in options.keys() - set(known):
            raise ConfigError(f"a chat has no option {name!r}; known are {', '.join(known)}")
        return cls(**options)

    def __post_init__(self) -> None:
        check_effort(self.reasoning_effort)
        check_choice(self.tool_choice, ToolSchemas(self.tools or ()).parameters)
        if not isinstance(self.parallel_tool_calls, bool):
            raise ConfigError(
                f"parallel_tool_calls is {self.parallel_tool_calls!r}; true or false expected"
            )
        if not isinstance(self.variables, Mapping):
            raise ConfigError("variables must be a mapping of the template's variables")
        if self.thinking not in (None, True, False):
            raise ConfigError(f"thinking is {self.thinking!r}; true, false or nothing expected")

    @property
    def reasons(self) -> bool:
        """False where no reasoning is asked for."""
        return self.thinking or (self.thinking is None and self.reasoning_effort != "none")

    @property
    def offered(self) -> Sequence[Mapping[str, Any]]:
        return (self.tools or ()) if self.tool_choice != "none" else ()


class ChatFormat:
    """A model's template and what it tells of the model.

    built_in: the template is not the checkpoint's. tool_format: a name of
    colibri.text.tools.formats. thinks: whether it writes a reasoning. can_stop_thinking: whether
    the template has a switch.
    """

    def __init__(self, template: ChatTemplate, model_type: str, *, built_in: bool) -> None:
        self.template, self.model_type, self.built_in = template, model_type, built_in
        source = template.source
        self._tags = tags_of(source)
        self.thinks = self._tags is not None
        self._switches = template.takes & _SWITCHES
        self.can_stop_thinking = bool(self._switches)
        self.takes_tools = "tools" in source
        self.tool_format = tool_format(source) if self.takes_tools else None

    @property
    def efforts(self) -> tuple[str, ...]:
        """Levels of reasoning effort; empty: it has none."""
        return levels_of(self.model_type, self.template.source)

    @classmethod
    def load(cls, directory: Path, model_type: str) -> "ChatFormat | None":
        """The checkpoint's own, else the family's; None where there is neither."""
        own = find_sources(directory)
        found = own or built_in(model_type)
        if found is None:
            return None
        path, sources = found
        named = load_special_tokens(directory).named
        template = ChatTemplate(sources, named, where=str(path))
        return cls(template, model_type, built_in=own is None)

    def history(self, messages: Sequence[Message]) -> History:
        """The messages prepared, for whoever renders them more than once. Raises ConfigError."""
        if isinstance(messages, History):
            return messages
        check_messages(messages)
        known = [_of_known_role(message) for message in messages]
        if not any(message.get("tool_calls") for message in known):
            return History.of(known)
        ready = [prepared(m, at, self._argument_forms) for at, m in enumerate(known)]
        notes = [note for _, notes in ready for note in notes]
        return History.of([message for message, _ in ready], notes)

    def render(self, messages: Sequence[Message], request: ChatRequest) -> str:
        """The prompt. messages: as they came, or their history."""
        if request.offered and not self.takes_tools:
            raise ConfigError("tools: this model's chat template has no place for them", "tools")
        history = self.history(messages)
        self._check_variables(request.variables)
        variables = {**self._variables(request)[0], **request.variables}
        return self.template.render(history, tools=_shown(request.offered), **variables)

    def notes(self, request: ChatRequest, history: History | None = None) -> list[str]:
        """What of the request this model cannot do as asked, and what is done instead."""
        notes = [*self._variables(request)[1], *(history.notes if history else ())]
        if request.offered and self.takes_tools and self.tool_format is None:
            notes.append("this model's form of tool calls is not known: they stay in the text")
        return notes

    def parser(self, prompt: str, request: ChatRequest) -> AnswerParser:
        """For the answer to a rendered prompt."""
        calls = None
        if request.offered and self.tool_format is not None:
            calls = ToolCalls(FORMATS[self.tool_format].read, ToolSchemas(request.offered))
        tags = self._tags
        splitter = None if tags is None else ReasoningSplitter(tags.state(prompt), tags)
        return AnswerParser(splitter, calls)

    def closed(self, prompt: str) -> str:
        """The same prompt for an answer without a reasoning."""
        return prompt if self._tags is None else self._tags.closed(prompt)

    def call_rules(self, tokenizer: Tokenizer, request: ChatRequest) -> ChoiceRules:
        """How the answer's calls are enforced."""
        write = None if self.tool_format is None else FORMATS[self.tool_format].rules
        return choice_rules(
            write, request.offered, request.tool_choice, request.parallel_tool_calls, tokenizer
        )

    def thinking(self, prompt: str, tokenizer: Tokenizer) -> Thinking | None:
        """How the answer's reasoning is told from what is enforced."""
        tags = self._tags
        if tags is None:
            return None
        opening = Structure("tools", f"start: {Rules(tokenizer.token_id).mark(tags.open)}")
        return Thinking(tags.state(prompt), opening, tags.open, tags.close)

    def shown(self, tokenizer: Tokenizer, request: ChatRequest) -> frozenset[int]:
        """Tokens that the parser must see, also where the tokenizer calls them special."""
        marks = [self._tags.open, self._tags.close] if self._tags is not None else []
        marks += _MARKERS if request.offered and self.tool_format else ()
        ids = (tokenizer.token_id(mark) for mark in marks)
        return frozenset(token_id for token_id in ids if token_id is not None)

    @cached_property
    def _argument_forms(self) -> ArgumentForms:
        return ArgumentForms.of(self.template)

    def _check_variables(self, given: Mapping[str, Any]) -> None:
        """What a template does not ask for would change nothing."""
        for name in given:
            if name not in self.template.takes:
                called = str(name)[:80]
                raise ConfigError(
                    f"variable {called!r}: this model's chat template takes none of that "
                    f"name; it takes {', '.join(sorted(self.template.takes)) or 'none'}",
                    f"variables.{called}",
                )

    def _variables(self, request: ChatRequest) -> tuple[dict[str, Any], list[str]]:
        effort = effort_for(request.reasoning_effort, self.model_type, self.template.source)
        thinking = False if effort.off and request.thinking is None else request.thinking
        notes = [effort.note] if effort.note else []
        variables: dict[str, Any] = {}
        if thinking is not None and self._switches:
            variables |= dict.fromkeys(self._switches, thinking)
        elif thinking is False and self.thinks:
            notes.append("thinking off: this model's template has no switch for it; it thinks")
        elif thinking and not self.thinks:
            notes.append("thinking on: this model's template knows no reasoning")
        if effort.value is not None:
            variables["reasoning_effort"] = effort.value
        return variables, notes


def _of_known_role(message: Message) -> Message:
    """A developer's message is what templates call a system message."""
    return {**message, "role": "system"} if message["role"] == "developer" else message


def _shown(tools: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """As the model gets them: strictness is not its business, but the grammar's."""
    return [
        {**tool, "function": {k: v for k, v in tool["function"].items() if k != "strict"}}
        for tool in tools
    ]

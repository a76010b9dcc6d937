"""tool_choice: which calls an answer may or must have."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from colibri.errors import ConfigError
from colibri.grammar.answers import CallRules
from colibri.text.tools.enforce import WriteRules, call_rules

Choice = str | Mapping[str, Any]


class HasTokens(Protocol):
    def token_id(self, token: str) -> int | None: ...


@dataclass(frozen=True)
class ChoiceRules:
    """rules: None where nothing is enforced. notes: what is not, although it was offered."""

    rules: CallRules | None = None
    notes: tuple[str, ...] = ()


def check_choice(choice: object, names: Mapping[str, object]) -> None:
    """`names`: of the tools."""
    if isinstance(choice, Mapping):
        if named(choice) is None:
            raise ConfigError(
                'tool_choice: {"type": "function", "function": {"name": ...}} expected'
            )
        if named(choice) not in names:
            raise ConfigError(f"tool_choice names {named(choice)!r}, which is none of the tools")
    elif choice not in ("auto", "none", "required"):
        raise ConfigError(
            f"tool_choice is {choice!r}; auto, none, required or a function by name expected"
        )
    elif choice == "required" and not names:
        raise ConfigError("tool_choice is required, and there are no tools")


def named(choice: Choice) -> object:
    """The function that it names; None where it names none."""
    function = choice.get("function") if isinstance(choice, Mapping) else None
    return function.get("name") if isinstance(function, Mapping) else None


def choice_rules(
    write: WriteRules | None,
    offered: Sequence[Mapping[str, Any]],
    choice: Choice,
    several: bool,
    tokens: HasTokens,
) -> ChoiceRules:
    must = choice != "auto" and bool(offered)
    if must and write is None:
        raise ConfigError(
            "tool_choice: this model's form of tool calls is not known, so none can be forced"
        )
    if not offered or write is None:
        return ChoiceRules()
    name = named(choice)
    chosen = [t for t in offered if name is None or t["function"]["name"] == name]
    several = several and name is None
    rules, notes = call_rules(write, chosen, tokens.token_id, must=must, several=several)
    return ChoiceRules(rules, tuple(notes))

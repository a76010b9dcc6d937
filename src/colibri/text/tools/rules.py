"""Grammar rules for tool calls as a model writes them, in the compiler's notation."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from colibri.grammar.compiler import JSON_OPTIONS, check_enforceable
from colibri.grammar.regex import escaped
from colibri.grammar.schema import narrowed

ANYTHING = "/(?s:.*)/"
TokenId = Callable[[str], int | None]


@dataclass(frozen=True)
class Tool:
    """parameters: a schema of an object. `free`: of the arguments only the form is enforced."""

    name: str
    parameters: Mapping[str, Any]
    free: bool = False


@dataclass
class Rules:
    """Rules as they are added; each method returns what stands for the new one. token_id: of a
    mark that is a token of its own, as most are in models' vocabularies: it is then written so."""

    token_id: TokenId
    lines: list[str] = field(default_factory=list)

    def rule(self, body: str) -> str:
        return self._add(f"r{len(self.lines)}", body)

    def terminal(self, body: str) -> str:
        return self._add(f"T{len(self.lines)}", body)

    def mark(self, text: str) -> str:
        token = self.token_id(text)
        return text_of(text) if token is None else f"<[{token}]>"

    def json(self, schema: Mapping[str, Any]) -> str:
        """A value in JSON."""
        check_enforceable(schema)
        compiled = {**narrowed(schema), "x-guidance": JSON_OPTIONS}
        return self.rule(f"%json {json.dumps(compiled)}")

    def raw(self, terminal: str, end: str, close: str) -> str:
        """Text that fits the terminal's expression, as it stands, and its end: no part of it can
        be `close`, at which whoever reads the call would take the text for ended."""
        bounded = f"({terminal}) & ~/(?s:.*){escaped(close)}(?s:.*)/"
        token = self.token_id(end)
        if token is None:  # one terminal: two would be matched greedily
            return self.terminal(f"({bounded}) {text_of(end)}")
        return self.rule(f"{self.terminal(bounded)} <[{token}]>")

    def source(self, start: str) -> str:
        return "\n".join([f"start: {start}", *self.lines])

    def _add(self, name: str, body: str) -> str:
        self.lines.append(f"{name}: {body}")
        return name


def text_of(text: str) -> str:
    """A string in the notation."""
    return json.dumps(text, ensure_ascii=False)

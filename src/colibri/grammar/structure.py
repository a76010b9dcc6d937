"""What an answer must look like, as the caller says it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from colibri.errors import GrammarError

Kind = Literal["json_object", "json_schema", "lark", "gbnf", "regex", "choice", "tools"]

LARGEST_BYTES = 256 * 1024
MOST_OPTIONS = 1000
_FROM_FILES = ("json_schema", "lark", "gbnf")  # where an editor may have put a byte-order mark


@dataclass(frozen=True)
class Structure:
    """The structure that an answer must have. Make one with the methods below.

    Raises GrammarError for a kind or source that is none. Whether the source can be honoured shows
    when the request is made, which raises GrammarError too.
    """

    kind: Kind
    """json_object, json_schema, lark, gbnf, regex, choice, or tools (made from a request's
    tools)."""
    source: str = ""
    """The text of the schema (JSON), grammar or regex; of a choice a JSON array of strings."""

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise GrammarError(f"structure: {self.kind!r} is none of {', '.join(get_args(Kind))}")
        if not isinstance(self.source, str):
            raise GrammarError(f"{self.kind}: {type(self.source).__name__} given; text expected")
        if self.kind in _FROM_FILES:
            object.__setattr__(self, "source", self.source.removeprefix("\ufeff"))
        try:
            size = len(self.source.encode())
        except UnicodeEncodeError:
            raise GrammarError(f"{self.kind}: half a character (a lone surrogate)") from None
        if size > LARGEST_BYTES:
            raise GrammarError(
                f"{self.kind}: {size} bytes; at most {LARGEST_BYTES} are compiled, make it smaller"
            )

    @classmethod
    def json_object(cls) -> "Structure":
        """Any JSON object."""
        return cls("json_object")

    @classmethod
    def json_schema(cls, schema: Mapping[str, Any] | bool | str) -> "Structure":
        """A value that the schema (an object, or its JSON) allows."""
        return cls("json_schema", schema if isinstance(schema, str) else _json(schema))

    @classmethod
    def lark(cls, text: str) -> "Structure":
        """A text that the Lark grammar derives from its rule `start`."""
        return cls("lark", text)

    @classmethod
    def gbnf(cls, text: str) -> "Structure":
        """A text that the GBNF grammar derives from its rule `root`."""
        return cls("gbnf", text)

    @classmethod
    def regex(cls, pattern: str) -> "Structure":
        """A text that matches from its first to its last character."""
        return cls("regex", pattern)

    @classmethod
    def choice(cls, options: Sequence[str]) -> "Structure":
        """One of these strings, word for word."""
        if isinstance(options, str) or not isinstance(options, Sequence) or not options:
            raise GrammarError("choice: a list of at least one string expected")
        if len(options) > MOST_OPTIONS:
            raise GrammarError(f"choice: {len(options)} options; at most {MOST_OPTIONS} are taken")
        for at, option in enumerate(options):
            if not isinstance(option, str) or not option:
                raise GrammarError(f"choice: option {at} is {option!r}; some text expected")
        return cls("choice", _json(list(options)))


def _json(value: object) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise GrammarError(f"structure: not JSON: {error}") from None

"""Grammars in Lark's notation, as callers write them: what would not be enforced is refused."""

import re
from typing import NoReturn

from colibri.errors import GrammarError

_MOST_JOINED = 4  # `&` and `~`: intersecting regexes takes time exponential in their number

_SKIPPED = r"""(?x)
    (?://|\#)[^\n]*                 # a comment
  | "(?:\\.|[^"\\\n])*"i?           # a string
  | /(?:\\.|[^/\\\n])+/[a-z]*       # a regex
"""
_REFUSED = r"""(?x)
    (?P<directive>%(?!import\b|ignore\b)\w*)
  | (?P<sub>@\w+)
  | (?P<special><[^>\s]*>)
  | (?P<attributes>^[ \t]*!?[\w.-]+\[[^\]\n]*\])
  | (?P<joined>[&~](?!\d))
"""
_TOKENS = re.compile(
    f"(?P<skip>{_SKIPPED.replace('(?x)', '')})|{_REFUSED.replace('(?x)', '')}",
    re.VERBOSE | re.MULTILINE,
)
_WHY = {
    "directive": "only %import and %ignore are supported; for JSON use a json_schema",
    "sub": "other grammars cannot be named",
    "special": "tokens cannot be named; write their text",
    "attributes": "rules take no options",
}


def check_lark(text: str) -> None:
    """GrammarError with line and column; the compiler tells what is wrong in the rest."""
    joined = 0
    for found in _TOKENS.finditer(text):
        kind = found.lastgroup or "skip"
        if kind == "joined":
            joined += 1
            if joined > _MOST_JOINED:
                _refuse(text, found.start(), f"more than {_MOST_JOINED} of & and ~")
        elif kind != "skip":
            _refuse(text, found.start(), f"{found[0].strip()[:40]!r}: {_WHY[kind]}")


def _refuse(text: str, at: int, why: str) -> NoReturn:
    line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
    raise GrammarError(f"lark: line {line}, column {column}: {why}")

"""Grammars in llama.cpp's notation (GBNF), rewritten in the compiler's.

Rules, strings, character classes, `.`, groups, `|`, `* + ? {m,n}` and comments; token references
are refused. Each character becomes a terminal of its own: longer ones are matched greedily by the
compiler, which GBNF does not do.
"""

import re
from collections.abc import Iterator
from typing import NoReturn

from colibri.errors import GrammarError

_TOKENS = re.compile(
    r"""(?P<blank>[ \t\r]+|\#[^\n]*) | (?P<line>\n)
      | (?P<rule>[A-Za-z0-9_-]+)(?=\s*::=) | (?P<is>::=) | (?P<name>[A-Za-z0-9_-]+)
      | "(?P<text>(?:\\.|[^"\\\n])*)" | \[(?P<negated>\^?)(?P<class>(?:\\.|[^\]\\\n])+)\]
      | (?P<any>\.) | (?P<repeat>[*+?]|\{\s*\d+\s*(?:,\s*\d*\s*)?\}) | (?P<sign>[|()])""",
    re.VERBOSE,
)
_CHARACTER = re.compile(
    r"\\x[0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\U[0-9a-fA-F]{8}|\\.|[^\\]", re.DOTALL
)
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}
_SELF = frozenset("\\\"[]-^'")
Token = tuple[str, str, int]


def gbnf_to_lark(text: str) -> str:
    """GrammarError with line and column of what is not understood."""
    tokens = list(_tokens(text))
    names: dict[str, str] = {}
    for kind, value, at in tokens:
        if kind == "rule":
            if value in names:
                _refuse(text, at, f"rule {value!r} is there already")
            names[value] = "start" if value == "root" else f"r{len(names)}"
    if "root" not in names:
        raise GrammarError("gbnf: there is no rule named root, where a text begins")
    return "".join(_written(text, tokens, names))


def _tokens(text: str) -> Iterator[Token]:
    at = 0
    while at < len(text):
        found = _TOKENS.match(text, at)
        if found is None:
            _refuse(text, at, f"{text[at : at + 10]!r} is not expected")
        kind = found.lastgroup or "text"
        if kind != "blank":
            yield kind, found[kind] if kind != "class" else found[0][1:-1], at
        at = found.end()


def _written(text: str, tokens: list[Token], names: dict[str, str]) -> Iterator[str]:
    depth, goes_on, before = 0, False, ""
    for kind, value, at in tokens:
        if kind == "line":
            goes_on = goes_on or before in ("|", "::=")
            before = "\n" if depth == 0 and not goes_on else before
            continue
        if kind == "rule" and depth:
            _refuse(text, at, "a group is not closed")
        if (before in ("", "\n")) != (kind == "rule") and value != "|":
            _refuse(text, at, "a rule begins with NAME ::=")
        if kind == "name" and value not in names:
            _refuse(text, at, f"there is no rule {value!r}")
        depth += {"(": 1, ")": -1}.get(value, 0) if kind == "sign" else 0
        if depth < 0:
            _refuse(text, at, "a group is closed that was not opened")
        yield _piece(kind, value, names, text, at)
        before, goes_on = value if kind in ("sign", "is") else kind, False
    if depth:
        _refuse(text, len(text), "a group is not closed")


def _piece(kind: str, value: str, names: dict[str, str], text: str, at: int) -> str:
    match kind:
        case "rule":
            return f"\n{names[value]}"
        case "is":
            return ":"
        case "name":
            return f" {names[value]}"
        case "any":
            return " /(?s:.)/"
        case "repeat":
            return "".join(value.split())
        case "class":
            return f" /[{_class(value, text, at)}]/"
        case "text":
            return "".join(f" /{_code(c)}/" for c in _characters(value, text, at)) or ' ""'
    return f" {value}"


def _class(value: str, text: str, at: int) -> str:
    """Its inside, with every character spelt as a number; a dash between two of them is a range."""
    negated, rest = value.startswith("^"), value.removeprefix("^")
    spelt = [c.group() for c in _CHARACTER.finditer(rest)]
    inner = [_code(_one(c, text, at)) for c in spelt]
    for index in range(1, len(spelt) - 1):
        if spelt[index] == "-":
            inner[index] = "-"
    return ("^" if negated else "") + "".join(inner)


def _characters(value: str, text: str, at: int) -> Iterator[str]:
    return (_one(found.group(), text, at) for found in _CHARACTER.finditer(value))


def _one(spelt: str, text: str, at: int) -> str:
    if not spelt.startswith("\\"):
        return spelt
    if len(spelt) > 2:
        number = int(spelt[2:], 16)
        if number < 0x110000 and not 0xD800 <= number < 0xE000:
            return chr(number)
    elif spelt[1] in _ESCAPES:
        return _ESCAPES[spelt[1]]
    elif spelt[1] in _SELF:
        return spelt[1]
    _refuse(text, at, f"{spelt} is no escape")


def _code(character: str) -> str:
    return rf"\x{{{ord(character):x}}}"


def _refuse(text: str, at: int, why: str) -> NoReturn:
    line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
    raise GrammarError(f"gbnf: line {line}, column {column}: {why}")

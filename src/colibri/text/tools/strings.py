"""Strings that stand without quotes: terminals for what their schema allows."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from colibri.errors import GrammarError
from colibri.grammar.formats import DATE, TIME
from colibri.text.tools.rules import ANYTHING, text_of

_BYTE = r"(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_LABEL = r"[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
_HOST = rf"{_LABEL}(?:\.{_LABEL}){{0,8}}"
# Texts that are surely of the format; not every one that is.
_FORMATS = {
    "date": DATE,
    "time": TIME,
    "date-time": f"{DATE}T{TIME}",
    "duration": r"P(?:[0-9]{1,9}W|[0-9]{1,9}D|T[0-9]{1,9}[HMS])",
    "email": rf"[a-zA-Z0-9_+-]+(?:\.[a-zA-Z0-9_+-]+)*@{_HOST}",
    "hostname": _HOST,
    "ipv4": rf"{_BYTE}(?:\.{_BYTE}){{3}}",
    "ipv6": r"[0-9a-f]{1,4}(?::[0-9a-f]{1,4}){7}",
    "uuid": r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
    "uri": rf"https?:\/\/{_HOST}(?::[0-9]{{1,4}})?(?:\/[a-zA-Z0-9._~%!$&'()*+,;=:@\/?#-]*)?",
}


def string_terminal(schema: Mapping[str, Any], where: str) -> str:
    """The expression of a terminal."""
    parts = list(_parts(schema, where))
    return " & ".join(f"({part})" for part in parts) if parts else ANYTHING


def _parts(schema: Mapping[str, Any], where: str) -> Iterator[str]:
    if "enum" in schema:
        yield " | ".join(map(text_of, schema["enum"]))
    if "pattern" in schema:
        yield _searched(schema["pattern"], where)
    if "format" in schema:
        yield f"/{_FORMATS[schema['format']]}/"
    if "minLength" in schema or "maxLength" in schema:
        yield f"/(?s:.{{{schema.get('minLength', 0)},{schema.get('maxLength', '')}}})/"


def _searched(pattern: str, where: str) -> str:
    """A pattern may be found anywhere, unless it is anchored."""
    from llguidance import regex_to_lark

    top = re.sub(r"\\.|\[[^\]]*\]|\([^()]*\)", "", pattern)
    begins, ends = pattern.startswith("^"), bool(re.search(r"(?<!\\)(?:\\\\)*\$$", pattern))
    if "|" in top and (begins or ends):
        raise GrammarError(f"tool {where}: 'pattern': put what is anchored into a group")
    inner = regex_to_lark(pattern[begins : len(pattern) - ends], "dw")
    return f"/{'' if begins else '(?s:.*)'}(?:{inner}){'' if ends else '(?s:.*)'}/"

"""Dates and times as everybody reads them. The grammars' own take the 29th of any February and a
second 60 in any minute, which validators and parsers refuse."""

from collections.abc import Iterable, Mapping
from typing import Any

_YEAR = r"(?:[0-9]{3}[1-9]|[0-9]{2}[1-9]0|[0-9][1-9]00|[1-9]000)"
_FOURTH = r"(?:0[48]|[2468][048]|[13579][26])"  # two digits: a multiple of 4, but no 00
_LEAP_YEAR = rf"(?:[0-9]{{2}}{_FOURTH}|{_FOURTH}00)"
_DAY = (
    r"(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    r"|02-(?:0[1-9]|1[0-9]|2[0-8]))"
)
DATE = rf"(?:{_YEAR}-{_DAY}|{_LEAP_YEAR}-02-29)"
_HOUR = r"(?:[01][0-9]|2[0-3])"
TIME = rf"{_HOUR}:[0-5][0-9]:[0-5][0-9](?:\.[0-9]{{1,6}})?(?:Z|[+-]{_HOUR}:[0-5][0-9])"
_NARROWER = {"date": DATE, "time": TIME, "date-time": f"{DATE}T{TIME}"}


def narrow_formats(nodes: Iterable[Any]) -> None:
    """In schemas: these formats become patterns."""
    for node in nodes:
        if isinstance(node, dict) and (found := _NARROWER.get(node.get("format", ""))):
            del node["format"]
            node["allOf"] = [*node.get("allOf", ()), _pattern(found)]


def _pattern(found: str) -> Mapping[str, str]:
    return {"pattern": f"^(?:{found})$"}

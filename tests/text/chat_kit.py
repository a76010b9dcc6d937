"""Cut text every way, join what comes out."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "Weather <now> & here, é",
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string"},
                    "days": {"type": "integer"},
                    "ratio": {"type": "number"},
                    "hours": {"type": "array", "items": {"type": "integer"}},
                    "wind": {"type": "boolean"},
                    "note": {"type": ["string", "null"]},
                    "where": {"anyOf": [{"type": "object"}, {"type": "null"}]},
                },
            },
        },
    },
    {"type": "function", "function": {"name": "time"}},
]


def joined(reading: Any, pieces: Iterable[str]) -> list[Any]:
    """All events of the pieces, neighbours of a kind that carry text put together."""
    events = itertools.chain.from_iterable([*map(reading.feed, pieces), reading.finish()])
    result: list[Any] = []
    for kind, group in itertools.groupby(events, type):
        members = list(group)
        if hasattr(members[0], "text"):
            assert all(member.text for member in members)
            result.append(kind("".join(member.text for member in members)))
        else:
            result += members
    return result


def cuts(text: str, at: Iterable[int]) -> Sequence[str]:
    edges = [0, *sorted(at), len(text)]
    return [text[a:b] for a, b in itertools.pairwise(edges)]


def every_cut(text: str) -> Iterator[Sequence[str]]:
    """Whole, by characters, and in two at each place."""
    yield [text]
    yield list(text)
    for at in range(1, len(text)):
        yield [text[:at], text[at:]]

"""Regexes: bounded before they are compiled, or made of a text."""

import re

from colibri.errors import GrammarError

MOST_REPEATED = 20_000  # of repetitions within repetitions, multiplied

_SIGNS = frozenset("\\.+*?()|[]{}^$#&-~/")
_PIECES = re.compile(
    r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|(?P<open>\()|(?P<close>\))"
    r"|\{(?P<least>\d+)(?P<range>,(?P<most>\d*))?\}|.",
    re.DOTALL,
)


def escaped(text: str) -> str:
    """A regex that matches this text alone."""
    return "".join("\\" + c if c in _SIGNS else c for c in text)


def check_repeats(pattern: str, where: str) -> None:
    """GrammarError where counted repetitions nest to more than can be followed."""
    outer: list[int] = []  # largest product in the groups around this place
    group, piece = 1, 1  # in this group, and of the piece just read
    for found in _PIECES.finditer(pattern):
        if found["open"]:
            outer.append(group)
            group, piece = 1, 1
        elif found["close"]:
            piece = group
            group = max(outer.pop(), piece) if outer else piece
        elif found["least"]:
            times = max(1, *(int(n[:9]) for n in (found["least"], found["most"]) if n))
            if piece > 1 and piece * times > MOST_REPEATED:
                raise GrammarError(
                    f"{where}: repetitions within repetitions come to {piece * times}; at most "
                    f"{MOST_REPEATED} are followed"
                )
            piece *= times
            group = max(group, piece)
        elif found[0] not in "*+?":
            piece = 1

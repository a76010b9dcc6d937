"""How large a value would be that a template asks for, known before it is made.

In characters; an item of a list counts as several, since it takes as much memory.
"""

import re
from collections.abc import Mapping, Sequence
from math import inf
from string import Formatter
from typing import Any

ITEM = 16
_FREE_BITS = 64
_BIT = 100  # long numbers cost time rather than memory: a product or quotient of two most of all
_NEEDLE = 256

# What a number given to these stands for, in characters.
_COUNTS = {
    "center": 1,
    "ljust": 1,
    "rjust": 1,
    "zfill": 1,
    "batch": ITEM,
    "slice": ITEM,
    "round": 10_000,
}
_LISTING = frozenset({"batch", "list", "slice"})
_BACKWARDS = frozenset({"rfind", "rindex", "rpartition", "rsplit"})  # time: the product of lengths


def length(value: Any) -> int:
    if isinstance(value, str):
        return len(value)
    if isinstance(value, list | tuple | Mapping):
        return ITEM * len(value)
    return _number(value.bit_length()) if isinstance(value, int) else 0


def operation(operator: str, left: Any, right: Any, largest: int) -> float:
    """largest: of the values that % puts into its text, as written out."""
    if operator == "%" and isinstance(left, str):
        return _filled(left, _values(right), largest)
    if isinstance(left, int) and isinstance(right, int):
        return _of_numbers(operator, left, right)
    if operator == "+":
        return length(left) + length(right)
    if operator == "*":
        count = right if isinstance(right, int) else left if isinstance(left, int) else 0
        return max(length(left), length(right)) * max(count, 0)
    return 0


def call(name: str, subject: Any, given: Sequence[Any], written: int, largest: int) -> float:
    """A filter or a method. given: its arguments; written: the subject's size, largest: that of the
    longest argument."""
    numbers = [abs(value) for value in given if isinstance(value, int)]
    items = len(subject) if hasattr(subject, "__len__") else 0
    if name in _COUNTS:
        listed = ITEM * items if name in _LISTING else 0
        return max(listed, _COUNTS[name] * max(numbers, default=0))
    if name in _LISTING:
        return ITEM * items
    if name == "indent":
        lines = len(str(subject).splitlines()) + 1
        return lines * max([largest, *numbers])
    if name == "replace":
        return written + _found(subject, given, written) * largest
    if name == "join":
        inner = given[0] if isinstance(subject, str) and given else ()
        return max(items * largest, (len(inner) if hasattr(inner, "__len__") else 0) * items)
    if name in ("format", "format_map"):
        return _filled(str(subject), given, largest)
    if name == "sum" and any(isinstance(value, list | tuple) for value in given):
        return items * written
    return items * largest / _NEEDLE if name in _BACKWARDS else 0


def _of_numbers(operator: str, left: int, right: int) -> float:
    if operator == "**":
        return _number(left.bit_length() * max(right, 0))
    return _number(left.bit_length() + right.bit_length()) if operator == "*" else 0


def _number(bits: int) -> int:
    return 0 if bits <= _FREE_BITS else bits * _BIT


def _found(subject: Any, given: Sequence[Any], written: int) -> int:
    """How often the first argument is in the subject, at most."""
    return subject.count(str(given[0])) if isinstance(subject, str) and given else written + 1


def _values(right: Any) -> Sequence[Any]:
    return right if isinstance(right, tuple) else [right]


def _filled(text: str, given: Sequence[Any], largest: int) -> float:
    """A text with places for values: each may hold the longest of them, and be as wide as any
    number in the text."""
    if _has_inner_places(text):
        return inf  # a width that is itself looked up
    widths = re.findall(r"\d+", text)
    if any(len(width) > 7 for width in widths):
        return inf
    starred = sum(abs(v) for v in given if isinstance(v, int)) if "*" in text else 0
    places = text.count("%") + text.count("{")
    return len(text) + places * largest + sum(map(int, widths)) + starred


def _has_inner_places(text: str) -> bool:
    try:
        return any("{" in (spec or "") for _, _, spec, _ in Formatter().parse(text))
    except ValueError:
        return False  # no text for `format`; what stands before the fault was looked at

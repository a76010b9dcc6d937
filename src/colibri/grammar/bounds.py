"""Bounds of numbers, as far as the compiler follows them. It reads a bound as a float, an integer's
then as 64 bits: beyond those it fails, or would take another bound for the one that is asked."""

import math
from collections.abc import Iterable
from typing import Any

_FURTHEST_INTEGER = 9_200_000_000_000_000_000  # of either sign, just within 64 bits
_FURTHEST = 900_000_000_000_000_000  # of other numbers
_LOWER, _UPPER = ("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")


def narrow_bounds(nodes: Iterable[Any]) -> None:
    """In checked schemas: bounds move inwards to ones that are followed to the digit. All that is
    then written fits the schema as it was."""
    for node in nodes:
        if isinstance(node, dict):
            furthest = _FURTHEST_INTEGER if _only_integers(node.get("type")) else _FURTHEST
            for keyword in _LOWER:
                if keyword in node:
                    node[keyword] = _as_float(max(node[keyword], -furthest), math.inf)
            for keyword in _UPPER:
                if keyword in node:
                    node[keyword] = _as_float(min(node[keyword], furthest), -math.inf)


def beyond(keyword: str, value: float) -> bool:
    """Whether all that such a bound allows is further out than bounds are followed."""
    if keyword in _LOWER:
        return value > _FURTHEST
    return keyword in _UPPER and value < -_FURTHEST


def _only_integers(types: object) -> bool:
    return types == "integer" or (isinstance(types, list) and {*types} - {"null"} == {"integer"})


def _as_float(value: float, towards: float) -> float:
    """A float's own value, as an integer where it is one; the next in this direction, if between
    two."""
    near = float(value)
    if (near < value) if towards > 0 else (near > value):
        near = math.nextafter(near, towards)
    return int(near) if isinstance(value, int) else near

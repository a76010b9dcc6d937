"""The values that a field of a request may have, told from the form that it is decoded into."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from msgspec import inspect

_STEP = re.compile(r"\[(\d+)\]|([^.\[\]]+)")


def choices(form: type[Any], at: str) -> list[str]:
    """Names that may stand at a place such as `messages[0].role`, sorted; none where any text may,
    or where the place is not told from the form alone."""
    here = [inspect.type_info(form)]
    names: set[str] = set()
    for step in _STEP.finditer(at):
        names, below = set(), []
        for known in _each(here):
            if step[1] is not None:
                below += _items(known)
            elif isinstance(known, inspect.StructType):
                if known.tag_field == step[2]:
                    names.add(str(known.tag))
                below += [f.type for f in known.fields if f.encode_name == step[2]]
            elif isinstance(known, inspect.DictType):
                below.append(known.value_type)
        here = below
    for known in _each(here):
        if isinstance(known, inspect.LiteralType):
            names.update(value for value in known.values if isinstance(value, str))
    return sorted(names)


def _each(types: list[inspect.Type]) -> Iterator[inspect.Type]:
    for known in types:
        match known:
            case inspect.UnionType(types=inner):
                yield from _each(list(inner))
            case inspect.Metadata(type=inner):
                yield from _each([inner])
            case _:
                yield known


def _items(known: inspect.Type) -> list[inspect.Type]:
    match known:
        case inspect.ListType(item_type=item) | inspect.VarTupleType(item_type=item):
            return [item]
    return []

"""What a chat template may call on its values, and which filters it has: what templates use, and
what makes little out of little. Whatever is not listed is refused by its name.
"""

from collections.abc import Mapping

from jinja2.runtime import LoopContext, Macro, TemplateReference, Undefined
from jinja2.utils import Cycler, Joiner, Namespace

# `translate`, `expandtabs` and `encode` stay out: they make much out of little, or bytes.
# fmt: off
_OF_TEXT = frozenset({
    "capitalize", "casefold", "center", "count", "endswith", "find", "format", "format_map",
    "index", "isalnum", "isalpha", "isascii", "isdecimal", "isdigit", "isidentifier", "islower",
    "isnumeric", "isprintable", "isspace", "istitle", "isupper", "join", "ljust", "lower",
    "lstrip", "partition", "removeprefix", "removesuffix", "replace", "rfind", "rindex", "rjust",
    "rpartition", "rsplit", "rstrip", "split", "splitlines", "startswith", "strip", "swapcase",
    "title", "upper", "zfill",
})
_OF_LISTS = frozenset({"copy", "count", "index"})
_OF_OBJECTS = frozenset({"copy", "get", "items", "keys", "values"})

FILTERS = frozenset({
    "abs", "attr", "batch", "capitalize", "center", "count", "d", "default", "dictsort", "e",
    "escape", "first", "float", "forceescape", "format", "groupby", "indent", "int", "items",
    "join", "last", "length", "list", "lower", "map", "max", "min", "reject", "rejectattr",
    "replace", "reverse", "round", "safe", "select", "selectattr", "slice", "sort", "string",
    "sum", "title", "tojson", "trim", "truncate", "unique", "upper",
})
# fmt: on

# jinja2's own, whose attributes are what they are there for.
_OPEN = (LoopContext, Macro, TemplateReference, Undefined, Cycler, Joiner, Namespace)


def is_allowed(value: object, name: str) -> bool:
    """Whether a template may ask this value for its attribute `name`."""
    if isinstance(value, str):
        return name in _OF_TEXT
    if isinstance(value, list | tuple):
        return name in _OF_LISTS
    if isinstance(value, Mapping):
        return name in _OF_OBJECTS
    return isinstance(value, _OPEN)

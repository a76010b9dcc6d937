"""What one rendering of a chat template may take: steps, time, and the size of what it makes."""

import time
from collections.abc import ItemsView, KeysView, Mapping, Sequence, ValuesView
from dataclasses import dataclass
from typing import Any

from jinja2.exceptions import SecurityError


class TemplateLimit(SecurityError):
    """A template went past a limit."""


@dataclass(frozen=True)
class TemplateLimits:
    """characters: of the result and of any one value; total_characters: of all values made on the
    way; steps: loop turns, calls and filters.
    """

    characters: int = 16_000_000
    total_characters: int = 500_000_000
    steps: int = 1_000_000
    seconds: float = 10.0


class Account:
    """What a rendering has taken so far.

    values: what the caller gives to the template. It does not change while the template runs, so it
    is measured once, here, and looked up afterwards: a conversation is not read again at each of
    its messages.
    """

    def __init__(self, limits: TemplateLimits, values: Mapping[str, Any]) -> None:
        self._limits = limits
        self._steps = self._made = 0
        self._deadline = time.monotonic() + limits.seconds
        self._values = values  # alive as long as their sizes are known by id
        self._sizes: dict[int, int] = {}
        for value in values.values():
            self._size_of(value)

    def tick(self) -> None:
        self._steps += 1
        if self._steps > self._limits.steps:
            raise TemplateLimit(f"it takes more than {self._limits.steps} steps")
        self._check_time()

    def check_size(self, size: float) -> None:
        if size > self._limits.characters:
            raise TemplateLimit(f"a value is longer than {self._limits.characters} characters")

    def make(self, size: float) -> None:
        """A value of that many characters or items is made. Values that are kept add up, however
        small each is."""
        self.check_size(size)
        self._made += int(size)
        if self._made > self._limits.total_characters:
            most = self._limits.total_characters
            raise TemplateLimit(f"it makes more than {most} characters in all")

    def measure(self, value: Any) -> int:
        """How long it is when written out, refused when that is too much: a list may hold one long
        list many times."""
        if isinstance(value, str):
            self.check_size(len(value))
            return len(value)
        total, turns, waiting = 0, 0, [value]
        while waiting:
            item = waiting.pop()
            known = self._sizes.get(id(item))
            total += _own_size(item) if known is None else known
            turns += 1
            self.check_size(total + len(waiting))
            if turns % 65536 == 0:
                self._check_time()
            if known is None:
                waiting += _inside(item)
        return total

    def _size_of(self, value: Any) -> int:
        if not isinstance(value, list | tuple | Mapping):
            return _own_size(value)
        size = self._sizes[id(value)] = 1 + sum(map(self._size_of, _inside(value)))
        return size

    def _check_time(self) -> None:
        if time.monotonic() > self._deadline:
            raise TemplateLimit(f"it takes more than {self._limits.seconds:g} seconds")


def _own_size(value: object) -> int:
    if isinstance(value, str):
        return len(value)
    return 1 + value.bit_length() // 3 if isinstance(value, int) else 1


def _inside(value: object) -> Sequence[Any]:
    if isinstance(value, Mapping):
        return [*value.keys(), *value.values()]
    if isinstance(value, KeysView | ValuesView | ItemsView):
        return list(value)
    return value if isinstance(value, list | tuple) else ()

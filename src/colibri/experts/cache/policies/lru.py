"""Least recently used first."""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from itertools import islice


class LeastRecentlyUsed:
    """Experts in use were asked for last, so the search does not meet them first."""

    def __init__(self) -> None:
        self._order: OrderedDict[int, None] = OrderedDict()

    def __contains__(self, key: int) -> bool:
        return key in self._order

    def demand(self, keys: Sequence[int]) -> None:
        order = self._order
        for key in keys:
            if key in order:
                order.move_to_end(key)

    def admit(self, key: int) -> None:
        self._order[key] = None

    def admit_first_to_go(self, key: int) -> None:
        self._order[key] = None
        self._order.move_to_end(key, last=False)

    def remove(self, key: int) -> None:
        self._order.pop(key, None)

    def victims(self, count: int, evictable: Callable[[int], bool]) -> list[int]:
        return list(islice(filter(evictable, self._order), count))

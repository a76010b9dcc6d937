"""Temporal groups, least recently used first."""

from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from itertools import chain, islice

_OVERLAP = 0.5  # share of a group's members that must be asked for to keep the others too


class TemporalGroups:
    """The unit is the set of experts that one call of a layer asks for: for a token, its experts.

    An expert belongs to the last set that asked for it. A set that asks again for half of an
    earlier one's remaining members refreshes it as a whole. The members of the oldest group go
    before any member of the next; a slot is taken only when it is needed.
    """

    def __init__(self) -> None:
        self._groups: OrderedDict[int, OrderedDict[int, None]] = OrderedDict()
        self._group_of: dict[int, int] = {}
        self._newest = 0

    def __contains__(self, key: int) -> bool:
        return key in self._group_of

    def demand(self, keys: Sequence[int]) -> None:
        present = [key for key in keys if key in self._group_of]
        for group, count in Counter(self._group_of[key] for key in present).items():
            if count >= _OVERLAP * len(self._groups[group]):
                self._groups.move_to_end(group)
        self._newest += 1
        for key in present:
            self.remove(key)
            self.admit(key)

    def admit(self, key: int) -> None:
        self._put(key, self._newest)

    def admit_first_to_go(self, key: int) -> None:
        self._put(key, -key - 1)  # a group of its own
        self._groups.move_to_end(-key - 1, last=False)

    def remove(self, key: int) -> None:
        if (group := self._group_of.pop(key, None)) is not None:
            del self._groups[group][key]
            if not self._groups[group]:
                del self._groups[group]

    def victims(self, count: int, evictable: Callable[[int], bool]) -> list[int]:
        return list(islice(filter(evictable, chain.from_iterable(self._groups.values())), count))

    def _put(self, key: int, group: int) -> None:
        self._group_of[key] = group
        self._groups.setdefault(group, OrderedDict())[key] = None

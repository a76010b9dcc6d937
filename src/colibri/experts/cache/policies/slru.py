"""Segmented LRU: who is asked for again while resident is protected from who came just now."""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from itertools import chain, islice

_PROTECTED = 0.75  # share of the slots


class SegmentedLRU:
    """Karedla, Love, Wherry 1994. A scan, such as a prompt, passes through probation only."""

    def __init__(self) -> None:
        self._probation: OrderedDict[int, None] = OrderedDict()
        self._protected: OrderedDict[int, None] = OrderedDict()

    def __contains__(self, key: int) -> bool:
        return key in self._probation or key in self._protected

    def demand(self, keys: Sequence[int]) -> None:
        for key in keys:
            if key in self._protected:
                self._protected.move_to_end(key)
            elif key in self._probation:
                del self._probation[key]
                self._protected[key] = None
        self._demote()

    def admit(self, key: int) -> None:
        self._probation[key] = None

    def admit_first_to_go(self, key: int) -> None:
        self._probation[key] = None
        self._probation.move_to_end(key, last=False)

    def remove(self, key: int) -> None:
        self._probation.pop(key, None)
        self._protected.pop(key, None)

    def victims(self, count: int, evictable: Callable[[int], bool]) -> list[int]:
        order = chain(self._probation, self._protected)
        return list(islice(filter(evictable, order), count))

    def _demote(self) -> None:
        """The least recently used of too many protected go to the end of probation."""
        limit = _PROTECTED * (len(self._probation) + len(self._protected))
        while len(self._protected) > limit:
            key, _ = self._protected.popitem(last=False)
            self._probation[key] = None

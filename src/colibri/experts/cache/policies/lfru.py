"""Frequency that ages, recency among equals."""

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from math import floor, log2

from colibri.experts.base import LAYER_KEYS

HALF_LIFE = 64  # calls of a layer after which a use counts half
_STEPS = 8  # classes an octave of frequency; within one recency decides


class LeastFrequentlyRecentlyUsed:
    """Every use counts 2 ** (-age / half-life); experts that have lost their slots keep their
    counts.

    Ageing keeps the order of two counts, so they are kept as log2(count) + time / half-life, which
    only a use changes. Experts are sorted into classes of that, and found from the lowest class on.
    Time is counted by layer, in calls, so that layers of one pool compare.
    """

    def __init__(self, half_life: float = HALF_LIFE) -> None:
        self._half_life = half_life
        self._calls: Counter[int] = Counter()
        self._heat: dict[int, float] = {}  # of every expert ever asked for
        self._class_of: dict[int, int] = {}  # of those with a slot
        self._classes: dict[int, OrderedDict[int, None]] = {}
        self._lowest = self._highest = 0
        self._guessed: OrderedDict[int, None] = OrderedDict()

    def __contains__(self, key: int) -> bool:
        return key in self._class_of or key in self._guessed

    def demand(self, keys: Sequence[int]) -> None:
        layer = keys[0] // LAYER_KEYS
        self._calls[layer] += 1
        now = self._calls[layer] / self._half_life
        for key in keys:
            heat = self._heat.get(key)
            self._heat[key] = now if heat is None else now + log2(1 + 2 ** (heat - now))
            if key in self._class_of:
                self._move(key)
            elif key in self._guessed:
                del self._guessed[key]
                self.admit(key)

    def admit(self, key: int) -> None:
        index = self._class_of[key] = self._class(key)
        self._classes.setdefault(index, OrderedDict())[key] = None
        self._lowest = min(self._lowest, index)
        self._highest = max(self._highest, index)

    def admit_first_to_go(self, key: int) -> None:
        self._guessed[key] = None
        self._guessed.move_to_end(key, last=False)

    def remove(self, key: int) -> None:
        self._guessed.pop(key, None)
        if (index := self._class_of.pop(key, None)) is not None:
            del self._classes[index][key]
            if not self._classes[index]:
                del self._classes[index]

    def victims(self, count: int, evictable: Callable[[int], bool]) -> list[int]:
        while self._lowest < self._highest and self._lowest not in self._classes:
            self._lowest += 1
        return list(islice(filter(evictable, self._order()), count))

    def _class(self, key: int) -> int:
        return floor(self._heat.get(key, 0.0) * _STEPS)

    def _move(self, key: int) -> None:
        """To the end of its class, or into another."""
        index = self._class_of[key]
        if self._class(key) == index:
            self._classes[index].move_to_end(key)
        else:
            self.remove(key)
            self.admit(key)

    def _order(self) -> Iterator[int]:
        yield from self._guessed
        for index in range(self._lowest, self._highest + 1):
            yield from self._classes.get(index, ())

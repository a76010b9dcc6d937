"""Cache policies: which resident expert of a layer is given up first."""

from collections import OrderedDict
from collections.abc import Callable

from colibri.errors import ConfigError
from colibri.experts.base import CachePolicy


class LeastRecentlyUsed:
    """O(1): experts in use were touched last, so the search does not meet them first."""

    def __init__(self) -> None:
        self._order: OrderedDict[int, None] = OrderedDict()

    def admit(self, expert: int) -> None:
        self._order[expert] = None

    def admit_first_to_go(self, expert: int) -> None:
        self._order[expert] = None
        self._order.move_to_end(expert, last=False)

    def touch(self, expert: int) -> None:
        self._order.move_to_end(expert)

    def remove(self, expert: int) -> None:
        self._order.pop(expert, None)

    def victim(self, evictable: Callable[[int], bool]) -> int | None:
        return next(filter(evictable, self._order), None)


_POLICIES: dict[str, Callable[[], CachePolicy]] = {"lru": LeastRecentlyUsed}


def make_policy(name: str) -> CachePolicy:
    if name not in _POLICIES:
        raise ConfigError(f"cache policy {name!r} is unknown; there is: {', '.join(_POLICIES)}")
    return _POLICIES[name]()

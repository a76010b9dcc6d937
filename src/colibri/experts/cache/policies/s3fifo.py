"""S3-FIFO: three queues without any order but that of arrival."""

from collections import OrderedDict
from collections.abc import Callable, Sequence

_SMALL = 0.1  # share of the slots through which newcomers pass
_MOST_USES = 3


class S3Fifo:
    """Yang, Zhang, Qiu, Yue, Rashmi 2023. Newcomers go through a small queue; who is not asked for
    there leaves, remembered for a while by a ghost queue: who comes back soon starts in the main
    queue, where each use is worth another round."""

    def __init__(self) -> None:
        self._small: OrderedDict[int, None] = OrderedDict()
        self._main: OrderedDict[int, None] = OrderedDict()
        self._ghosts: OrderedDict[int, None] = OrderedDict()
        self._uses: dict[int, int] = {}  # of those with a slot, since they came
        self._chosen: OrderedDict[int, None] = OrderedDict()  # victims that are still there

    def __contains__(self, key: int) -> bool:
        return key in self._uses

    def demand(self, keys: Sequence[int]) -> None:
        for key in keys:
            if key in self._uses:
                self._uses[key] = min(self._uses[key] + 1, _MOST_USES)
                if key in self._chosen:
                    del self._chosen[key]
                    self._main[key] = None

    def admit(self, key: int) -> None:
        self._uses[key] = 0
        if key in self._ghosts:
            del self._ghosts[key]
            self._main[key] = None
        else:
            self._small[key] = None

    def admit_first_to_go(self, key: int) -> None:
        self._uses[key] = 0
        self._chosen[key] = None
        self._chosen.move_to_end(key, last=False)

    def remove(self, key: int) -> None:
        if self._uses.pop(key, None) is None:
            return
        if self._chosen.pop(key, key) is None:
            self._remember(key)
        self._small.pop(key, None)
        self._main.pop(key, None)

    def victims(self, count: int, evictable: Callable[[int], bool]) -> list[int]:
        found = [key for key in self._chosen if evictable(key)][:count]
        busy: list[tuple[OrderedDict[int, None], int]] = []
        while len(found) < count and (self._small or self._main):
            queue = self._queue()
            key, _ = queue.popitem(last=False)
            if not evictable(key):
                busy.append((queue, key))
            elif self._stays(key, queue):
                self._main[key] = None
            else:
                self._chosen[key] = None
                found.append(key)
        for queue, key in busy:
            queue[key] = None
        return found

    def _queue(self) -> OrderedDict[int, None]:
        """Whose oldest expert is looked at next."""
        total = len(self._small) + len(self._main)
        if self._small and (len(self._small) > _SMALL * total or not self._main):
            return self._small
        return self._main

    def _stays(self, key: int, queue: OrderedDict[int, None]) -> bool:
        if queue is self._small:
            promoted = self._uses[key] > 1
            self._uses[key] = 0 if promoted else self._uses[key]
            return promoted
        self._uses[key] -= 1
        return self._uses[key] >= 0

    def _remember(self, key: int) -> None:
        self._ghosts[key] = None
        if len(self._ghosts) > len(self._uses):
            self._ghosts.popitem(last=False)

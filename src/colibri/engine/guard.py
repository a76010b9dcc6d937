"""Keeps the process within its budget, whatever it is that grew: measured between steps, and above
the budget the expert cache gives memory back."""

import logging
import time
from collections.abc import Callable
from typing import Protocol

# Between two measurements; a chunk of a prompt counts as its tokens. The time is for models of a
# few tokens a second, in which much can grow.
EVERY_TOKENS, EVERY_SECONDS = 16, 0.05
_ROUNDS = 4  # of shrinking at a time
_MARGIN, _LEAST_MARGIN = 0.01, 16_000_000  # below the budget, so that the next page is not over it
MB = 1_000_000

logger = logging.getLogger("colibri")


class Shrinkable(Protocol):
    @property
    def slots(self) -> int: ...

    def shrink(self, nbytes: int) -> int:
        """Gives back at least so much, as far as it can; how much it was."""
        ...


class MemoryGuard:
    """Shrinks to somewhat below the budget and never grows again, so it comes to rest: each step
    makes the cache smaller, and the last leaves a slot a layer."""

    def __init__(
        self,
        budget_bytes: int,
        rss: Callable[[], int],
        cache: Shrinkable,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.shrinks = 0  # steps in which the cache became smaller
        self.given_back_bytes = 0
        self._budget = budget_bytes
        self._goal = budget_bytes - max(int(budget_bytes * _MARGIN), _LEAST_MARGIN)
        self._rss = rss
        self._cache = cache
        self._clock = clock
        self._tokens, self._measured = 0, clock()
        self._exhausted = False

    def after(self, tokens: int) -> None:
        """A step of so many tokens is done, and nothing runs."""
        self._tokens, now = self._tokens + tokens, self._clock()
        if self._tokens < EVERY_TOKENS and now - self._measured < EVERY_SECONDS:
            return
        self._tokens, self._measured = 0, now
        if not self._exhausted and (rss := self._rss()) > self._budget:
            self._shrink(rss)

    def _shrink(self, rss: int) -> None:
        before, slots, given = rss, self._cache.slots, 0
        for _ in range(_ROUNDS):
            got = self._cache.shrink(rss - self._goal)
            given += got
            rss = self._rss()
            if got == 0 or rss <= self._goal:
                break
        self._exhausted = given == 0
        self.shrinks += given > 0
        self.given_back_bytes += given
        self._say(before, rss, slots, given)

    def _say(self, before: int, now: int, slots: int, given: int) -> None:
        over = (
            f"{before / MB:,.0f} MB of memory are used, {self._budget / MB:,.0f} MB are the budget"
        )
        if self._exhausted:
            logger.warning(
                "%s, and the expert cache has nothing left to give: what else this process holds "
                "is too much for --ram",
                over,
            )
            return
        logger.warning(
            "%s: the expert cache gives %s MB back and keeps %d of %d slots; %s MB are used now",
            over,
            f"{given / MB:,.0f}",
            self._cache.slots,
            slots,
            f"{now / MB:,.0f}",
        )

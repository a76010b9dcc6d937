"""Which of a call's experts are hits, and whose slots the others get: no reads, no waiting.

All of it follows from the sequence of demands, never from when a read lands, so a replay of the
demands takes the same decisions as the engine.
"""

from bisect import insort
from collections.abc import Callable, Collection, Sequence

from colibri.experts.cache.layer import LayerCache

GROUP = 4  # reads that rounds leave room for, as far as there are slots


class Admission:
    """The union of a call (ascending), admitted to a layer's cache lowest ids first.

    Experts outside the union are evicted first. If slots are still missing, the call runs in rounds
    and reuses its own: an expert takes the slot of another that will be finished by then, and the
    policy chooses which. Candidates are, when the walk takes experts as they come, the hits and
    what was admitted a few turns ago; when it takes them in ascending order, all that precede the
    last few that were absent and have slots by now.

    experts: the union. claimed: those on their way on a guess. in_order: the walk is ascending.
    """

    def __init__(
        self, cache: LayerCache, experts: list[int], claimed: Collection[int], in_order: bool
    ) -> None:
        self._cache, self._pool = cache, cache.pool
        self._in_order = in_order
        is_resident = cache.resident
        self.hits = [e for e in experts if is_resident[e]]
        missing = [e for e in experts if not is_resident[e]]
        self.waiting = [e for e in missing if e not in claimed]  # for a slot, ascending
        cache.demand(experts)
        cache.use(self.hits)
        for expert in missing:
            if expert in claimed:
                cache.claim(expert)
        cache.hits += len(self.hits)
        cache.misses += len(missing)
        # Rounds leave room for this many reads at a time: hits must not fill the cache.
        self._room = max(1, min(GROUP, self._pool.movable // 2))
        self._union = {cache.key(expert): expert for expert in experts}
        self._brought = sorted(claimed)  # those that were absent and have slots by now, in turn
        self._victim: int | None = None
        self._first = True  # the others' slots are still to be taken
        if in_order:
            self._make_room()

    def admit(self) -> list[tuple[int, int]]:
        """The experts that can be read now, with their slots; they are then loading."""
        if not self.waiting:
            return []
        slots = self._cache.reserve(self.waiting, self._outsider if self._first else _nobody)
        self._first = False
        admitted = [(self._next(), slot) for slot in slots]
        while self.waiting and self._take_from_the_call():
            slots = self._cache.reserve(self.waiting[:1], _nobody)
            admitted.append((self._next(), slots[0]))
        return admitted

    def again(self, expert: int) -> None:
        """The expert has lost its slot: to be admitted when its turn comes."""
        insort(self.waiting, expert)
        self._brought = [e for e in self._brought if e != expert]
        self._victim = None

    def give_up_last(self, experts: Sequence[int]) -> None:
        """Evicts the ready expert that is needed last, to be read again when its turn comes."""
        ready = (e for e in reversed(experts) if self._cache.in_use(e) and not self._held(e))
        self._give_up(next(ready))

    def _next(self) -> int:
        expert = self.waiting.pop(0)
        self._brought.append(expert)
        return expert

    def _take_from_the_call(self) -> bool:
        """Frees a slot of the call's own, if the expert that is to lose it is done with."""
        if self._victim is None:
            self._victim = self._choose()
        if self._victim is None or not self._pool.idle(self._victim):
            return False
        self._pool.give_up(self._victim)
        self._victim = None
        return True

    def _outsider(self, key: int) -> bool:
        return key not in self._union

    def _choose(self) -> int | None:
        """The policy's choice among those that will be done with while the last few reads are still
        under way; among more where hits fill the cache and so few were absent that there are none.
        """
        for recent in range(self._room - 1, -1, -1):
            for victim in self._pool.policy.victims(1, self._may_go_beside(recent)):
                return victim
        return None

    def _may_go_beside(self, recent: int) -> Callable[[int], bool]:
        """Of keys, which may lose their slots while so many that got theirs last keep them."""
        brought = sorted(self._brought) if self._in_order else self._brought
        kept = brought[max(0, len(brought) - recent) :]
        first_needed = min(self.waiting[:1] + kept)

        def may_go(key: int) -> bool:
            expert = self._union.get(key)
            if expert is None:
                return self._pool.idle(key)
            return expert < first_needed if self._in_order else expert not in kept

        return may_go

    def _make_room(self) -> None:
        """For a walk in ascending order: gives up hits that are needed late, if they leave the
        reads of what comes before them hardly a slot, and the disk waits for the arithmetic."""
        movable = [e for e in self.hits if not self._held(e)]
        while (
            self.waiting
            and movable
            and movable[-1] > self.waiting[0]
            and self._pool.movable - len(movable) < self._room
        ):
            self._give_up(movable.pop())

    def _give_up(self, expert: int) -> None:
        self._cache.release([expert])
        self._pool.give_up(self._cache.key(expert))
        if expert in self.hits:
            self.hits.remove(expert)
            self._cache.hits -= 1
            self._cache.misses += 1
        self.again(expert)

    def _held(self, expert: int) -> bool:
        return self._cache.held(expert)


def _nobody(key: int) -> bool:
    return False

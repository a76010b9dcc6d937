"""Which expert of a layer is in which slot. Bookkeeping only: no memory, no reads, no locks.

Only the thread that runs the layer calls this; readers know nothing but the slot of their read.
"""

from collections.abc import Callable, Container, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from colibri.experts.base import Ids
from colibri.experts.cache.pool import SlotPool

_NO_SLOT = -1


class LayerCache:
    """An expert is absent, loading (has a slot, no bytes yet) or resident.

    An expert that is loading or in use keeps its slot; the pool sees to that. An expert that landed
    on a guess is unproven until asked for, and the first to go. One that was asked for takes its
    place in the policy's order when it gets its slot, not when it lands: so victims follow from the
    sequence of demands alone.
    A held expert is out of that order, and never a victim.
    """

    def __init__(self, num_experts: int, pool: SlotPool) -> None:
        self.num_experts = num_experts
        self.pool = pool
        self._policy = pool.policy
        self._base = pool.join(self)
        self._slot_of = [_NO_SLOT] * num_experts
        self.resident: NDArray[np.bool_] = np.zeros(num_experts, np.bool_)
        self._uses = [0] * num_experts
        self._num_resident = 0
        self._unproven: dict[int, int] = {}  # bytes read
        self.zero_counters()

    def zero_counters(self) -> None:
        self.hits = self.misses = self.evictions = 0
        self.guesses_useful = self.guesses_wasted_bytes = 0

    def key(self, expert: int) -> int:
        """The expert in the pool's order."""
        return self._base + expert

    def slot(self, expert: int) -> int:
        """The slot of a loading or resident expert."""
        slot = self._slot_of[expert]
        assert slot != _NO_SLOT
        return slot

    def has_slot(self, expert: int) -> bool:
        return self._slot_of[expert] != _NO_SLOT

    @property
    def complete(self) -> bool:
        """Whether every expert is resident."""
        return self._num_resident == self.num_experts

    def is_proven(self, expert: int) -> bool:
        """Resident, and not just on a guess."""
        return bool(self.resident[expert]) and expert not in self._unproven

    def is_loading(self, expert: int) -> bool:
        return self._slot_of[expert] != _NO_SLOT and not self.resident[expert]

    def has_all(self, experts: Ids) -> bool:
        """Whether every one of these is resident: the usual case of decode."""
        # Not all(): a reduction takes 20 µs where weights have just passed through the caches.
        return self.complete or b"\0" not in self.resident.take(experts, mode="clip").tobytes()

    def demand(self, experts: Sequence[int]) -> None:
        """A call asks for these, ascending, each once."""
        base = self._base
        self._policy.demand([base + expert for expert in experts] if base else experts)
        if self._unproven:
            self.guesses_useful += sum(self._unproven.pop(e, None) is not None for e in experts)

    def demand_resident(self, experts: Ids) -> Sequence[int]:
        """A call asks for these, all of them resident. Returns those that could lose their slots:
        none where there is a slot for every expert, and then there is no order to keep either."""
        if self.pool.roomy and not self._unproven:
            return ()
        named = sorted({*experts.ravel().tolist()})
        self.demand(named)
        return named

    def use(self, experts: Iterable[int]) -> None:
        """A call works with these resident experts: they keep their slots until released."""
        for expert in experts:
            self._uses[expert] += 1

    def release(self, experts: Iterable[int]) -> None:
        """The call is done with them."""
        for expert in experts:
            assert self._uses[expert] > 0
            self._uses[expert] -= 1

    def in_use(self, expert: int) -> bool:
        return self._uses[expert] > 0

    def hold(self, expert: int) -> bool:
        """From now on the expert, once it has a slot, keeps it; False if that would leave no slot
        to the others."""
        return self.pool.hold(self._base + expert)

    def unhold(self, expert: int) -> None:
        """It may be evicted again."""
        self.pool.unhold(self._base + expert)

    def held(self, expert: int) -> bool:
        return self.pool.holds(self._base + expert)

    def reserve(
        self, experts: Sequence[int], evictable: Callable[[int], bool] = lambda key: True
    ) -> list[int]:
        """Slots for the first ones of these absent experts, as far as there are any; they are then
        loading. evictable: of keys, which idle experts may lose theirs for it."""
        self.pool.evict(len(experts) - len(self.pool.free), evictable)
        return [self._take_free(expert) for expert in experts[: len(self.pool.free)]]

    def reserve_on_a_guess(self, expert: int, keep: Container[int] = ()) -> int | None:
        """A slot for an expert that nobody has asked for; None if all are in use, in flight or
        belong to experts of this layer to keep."""
        if not self.pool.free and not self.pool.evict(1, self._all_but(keep)):
            return None
        slot = self._slot_of[expert] = self.pool.free.pop()
        return slot

    def claim(self, expert: int) -> None:
        """An expert that is loading on a guess has been asked for."""
        self._admit(expert)

    def landed(self, expert: int) -> None:
        """The bytes of a loading expert are in its slot: it is resident, and in use."""
        assert self.is_loading(expert)
        self._make_resident(expert)
        self.use([expert])

    def landed_on_a_guess(self, expert: int, nbytes: int) -> None:
        """The same for an expert that nobody has asked for yet: not in use, first to go."""
        assert self.is_loading(expert)
        if not self.held(expert):
            self._policy.admit_first_to_go(self._base + expert)
        self._unproven[expert] = nbytes
        self._make_resident(expert)

    def drop(self, expert: int) -> None:
        """Frees the slot of an expert, loading or resident, whose bytes nobody uses."""
        assert not self.in_use(expert)
        self._policy.remove(self._base + expert)
        self._num_resident -= int(self.resident[expert])
        self.resident[expert] = False
        self.guesses_wasted_bytes += self._unproven.pop(expert, 0)
        self.pool.free.append(self._slot_of[expert])
        self._slot_of[expert] = _NO_SLOT

    def recover(self) -> Iterable[int]:
        """The layer's part of the pool's: the slots that stay in use."""
        self._uses = [0] * self.num_experts
        self._num_resident = int(self.resident.sum())
        self._unproven = {e: n for e, n in self._unproven.items() if self.resident[e]}
        for expert in range(self.num_experts):
            if not self.resident[expert]:
                self._slot_of[expert] = _NO_SLOT
                self._policy.remove(self._base + expert)
            else:
                self._admit(expert)
        return [slot for slot in self._slot_of if slot != _NO_SLOT]

    def clear(self) -> None:
        """Makes every expert absent. Nothing may be in use or in flight."""
        for expert in np.flatnonzero(self.resident).tolist():
            self.drop(expert)

    def _take_free(self, expert: int) -> int:
        assert self._slot_of[expert] == _NO_SLOT
        slot = self._slot_of[expert] = self.pool.free.pop()
        self._admit(expert)
        return slot

    def _admit(self, expert: int) -> None:
        key = self._base + expert
        if key not in self._policy and not self.pool.holds(key):
            self._policy.admit(key)

    def _all_but(self, keep: Container[int]) -> Callable[[int], bool]:
        first, stop = self._base, self._base + self.num_experts
        return lambda key: not (first <= key < stop and key - first in keep)

    def _make_resident(self, expert: int) -> None:
        self.resident[expert] = True
        self._num_resident += 1

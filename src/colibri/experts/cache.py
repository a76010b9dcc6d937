"""Which expert of a layer is in which slot. Bookkeeping only: no memory, no reads, no locks.

Only the thread that runs the layer calls this; readers know nothing but the slot of their read.
"""

from collections.abc import Container, Iterable

import numpy as np
from numpy.typing import NDArray

from colibri.experts.base import CachePolicy, Ids

_NO_SLOT = -1


class LayerCache:
    """An expert is absent, loading (has a slot, no bytes yet) or resident.

    A slot is free, or belongs to exactly one expert. A loading or pinned expert keeps its slot.
    An expert that landed on a guess is unproven until touched, and the first to go.
    """

    def __init__(self, num_experts: int, slots: list[int], policy: CachePolicy) -> None:
        self._slots = list(slots)
        self._free = list(slots)
        self._policy = policy
        self._slot_of = [_NO_SLOT] * num_experts
        self.resident: NDArray[np.bool_] = np.zeros(num_experts, np.bool_)
        self._pins = [0] * num_experts
        self._num_resident = 0
        self._unproven: dict[int, int] = {}  # bytes read
        self.zero_counters()

    def zero_counters(self) -> None:
        self.hits = self.misses = self.evictions = 0
        self.guesses_useful = self.guesses_wasted_bytes = 0

    @property
    def capacity(self) -> int:
        return len(self._slots)

    @property
    def any_slot(self) -> int:
        return self._slots[0]

    def slot(self, expert: int) -> int:
        """The slot of a loading or resident expert."""
        slot = self._slot_of[expert]
        assert slot != _NO_SLOT
        return slot

    @property
    def complete(self) -> bool:
        """Whether every expert is resident."""
        return self._num_resident == len(self._slot_of)

    def is_absent(self, expert: int) -> bool:
        return self._slot_of[expert] == _NO_SLOT

    def is_proven(self, expert: int) -> bool:
        """Resident, and not just on a guess."""
        return bool(self.resident[expert]) and expert not in self._unproven

    def is_loading(self, expert: int) -> bool:
        return self._slot_of[expert] != _NO_SLOT and not self.resident[expert]

    def has_all(self, experts: Ids) -> bool:
        """Whether every one of these is resident: the usual case of decode."""
        return self.complete or bool(self.resident.take(experts, mode="clip").all())

    def touch_all(self, experts: Ids) -> None:
        """Each once, in ascending order. With a slot for every expert none is ever given up, and
        there is no order to keep."""
        if self.capacity < len(self._slot_of) or self._unproven:
            self.touch(sorted({*experts.ravel().tolist()}))

    def touch(self, experts: Iterable[int]) -> None:
        for expert in experts:
            self._policy.touch(expert)
            if self._unproven and self._unproven.pop(expert, None) is not None:
                self.guesses_useful += 1

    def pin(self, expert: int) -> None:
        self._pins[expert] += 1

    def unpin(self, expert: int) -> None:
        assert self._pins[expert] > 0
        self._pins[expert] -= 1

    def pinned(self, expert: int) -> bool:
        return self._pins[expert] > 0

    def reserve(self, expert: int, keep: Container[int] = ()) -> int | None:
        """A slot for an absent expert, which is then loading; None if all are in use.

        keep: experts that are not evicted for it.
        """
        assert self._slot_of[expert] == _NO_SLOT
        if not self._free and not self.evict(keep):
            return None
        slot = self._free.pop()
        self._slot_of[expert] = slot
        return slot

    def landed(self, expert: int) -> None:
        """The bytes of a loading expert are in its slot: it is resident, and pinned once."""
        assert self.is_loading(expert)
        self._policy.admit(expert)
        self._pins[expert] += 1
        self._make_resident(expert)

    def landed_on_a_guess(self, expert: int, nbytes: int) -> None:
        """The same for an expert that nobody has asked for yet: not pinned, first to go."""
        assert self.is_loading(expert)
        self._policy.admit_first_to_go(expert)
        self._unproven[expert] = nbytes
        self._make_resident(expert)

    def drop(self, expert: int) -> None:
        """Frees the slot of an expert, loading or resident, whose bytes nobody uses."""
        self._policy.remove(expert)
        self._num_resident -= int(self.resident[expert])
        self.resident[expert] = False
        self.guesses_wasted_bytes += self._unproven.pop(expert, 0)
        self._free.append(self._slot_of[expert])
        self._slot_of[expert] = _NO_SLOT

    def evict(self, keep: Container[int] = ()) -> bool:
        """Frees one slot by the policy's choice; False if all are in use, in flight or to keep."""
        victim = self._policy.victim(lambda e: self._pins[e] == 0 and e not in keep)
        if victim is None:
            return False
        self.drop(victim)
        self.evictions += 1
        return True

    def shrink(self, capacity: int) -> list[int]:
        """Gives up slots until `capacity` are left; returns them. Nothing may be in use."""
        given: list[int] = []
        while len(self._slots) > capacity and (self._free or self.evict()):
            slot = self._free.pop()
            self._slots.remove(slot)
            given.append(slot)
        return given

    def grow(self, slots: list[int]) -> None:
        self._slots += slots
        self._free += slots

    def recover(self) -> None:
        """After a call was broken off, at whatever point: no pins, no loading, no lost slot."""
        self._pins = [0] * len(self._pins)
        self._num_resident = int(self.resident.sum())
        self._unproven = {e: n for e, n in self._unproven.items() if self.resident[e]}
        for expert, slot in enumerate(self._slot_of):
            if slot != _NO_SLOT and not self.resident[expert]:
                self._slot_of[expert] = _NO_SLOT
                self._policy.remove(expert)
        self._free = sorted(set(self._slots).difference(self._slot_of), reverse=True)

    def clear(self) -> None:
        """Makes every expert absent. Nothing may be in use or in flight."""
        for expert in np.flatnonzero(self.resident).tolist():
            self.drop(expert)

    def _make_resident(self, expert: int) -> None:
        self.resident[expert] = True
        self._num_resident += 1

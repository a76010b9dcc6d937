"""Which expert of a layer is in which slot. Bookkeeping only: no memory, no reads, no locks.

Only the thread that runs the layer calls this; readers know nothing but the slot of their read.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from colibri.experts.base import CachePolicy

_NO_SLOT = -1


class LayerCache:
    """An expert is absent, loading (has a slot, no bytes yet) or resident.

    A slot is free, or belongs to exactly one expert. A loading or pinned expert keeps its slot.
    """

    def __init__(self, num_experts: int, slots: list[int], policy: CachePolicy) -> None:
        self._slots = list(slots)
        self._free = list(slots)
        self._policy = policy
        self._slot_of = [_NO_SLOT] * num_experts
        self.resident: NDArray[np.bool_] = np.zeros(num_experts, np.bool_)
        self._pins = [0] * num_experts
        self.hits = self.misses = self.evictions = 0

    @property
    def capacity(self) -> int:
        return len(self._slots)

    def slot(self, expert: int) -> int:
        """The slot of a loading or resident expert."""
        slot = self._slot_of[expert]
        assert slot != _NO_SLOT
        return slot

    def is_loading(self, expert: int) -> bool:
        return self._slot_of[expert] != _NO_SLOT and not self.resident[expert]

    def hit_all(self, experts: NDArray[np.int64]) -> bool:
        """If all of a union are resident: touches and counts them. The usual case of decode."""
        if not self.resident[experts].all():
            return False
        self.touch(experts.tolist())
        self.hits += experts.size
        return True

    def touch(self, experts: Iterable[int]) -> None:
        for expert in experts:
            self._policy.touch(expert)

    def pin(self, expert: int) -> None:
        self._pins[expert] += 1

    def unpin(self, expert: int) -> None:
        assert self._pins[expert] > 0
        self._pins[expert] -= 1

    def pinned(self, expert: int) -> bool:
        return self._pins[expert] > 0

    def reserve(self, expert: int) -> int | None:
        """A slot for an absent expert, which is then loading; None if all are in use."""
        assert self._slot_of[expert] == _NO_SLOT
        if not self._free and not self.evict():
            return None
        slot = self._free.pop()
        self._slot_of[expert] = slot
        return slot

    def landed(self, expert: int) -> None:
        """The bytes of a loading expert are in its slot: it is resident, and pinned once."""
        assert self.is_loading(expert)
        self._policy.admit(expert)
        self._pins[expert] += 1
        self.resident[expert] = True

    def drop(self, expert: int) -> None:
        """Frees the slot of an expert, loading or resident, whose bytes nobody uses."""
        self._policy.remove(expert)
        self.resident[expert] = False
        self._free.append(self._slot_of[expert])
        self._slot_of[expert] = _NO_SLOT

    def evict(self) -> bool:
        """Frees one slot by the policy's choice; False if every one is in use or in flight."""
        victim = self._policy.victim(self._evictable)
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
        for expert, slot in enumerate(self._slot_of):
            if slot != _NO_SLOT and not self.resident[expert]:
                self._slot_of[expert] = _NO_SLOT
                self._policy.remove(expert)
        self._free = sorted(set(self._slots).difference(self._slot_of), reverse=True)

    def clear(self) -> None:
        """Makes every expert absent. Nothing may be in use or in flight."""
        for expert in np.flatnonzero(self.resident).tolist():
            self.drop(expert)

    def _evictable(self, expert: int) -> bool:
        return self._pins[expert] == 0

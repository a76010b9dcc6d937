"""Slots under one order of eviction: those of a layer, or of all layers with slots of a size."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from colibri.experts.base import LAYER_KEYS, CachePolicy

if TYPE_CHECKING:
    from colibri.experts.cache.layer import LayerCache


class SlotPool:
    """A slot is free, or belongs to exactly one expert of one of the pool's layers."""

    def __init__(self, slots: list[int], policy: CachePolicy) -> None:
        self.policy = policy
        self.free = list(slots)
        self.caches: list[LayerCache] = []
        self._slots = list(slots)
        self._experts = 0
        self._held: dict[int, None] = {}  # keys of experts held for good, in order
        self.roomy = True  # whether there is a slot for every expert: none is ever given up

    @property
    def capacity(self) -> int:
        return len(self._slots)

    @property
    def share(self) -> int:
        """Slots a layer, if each had as many."""
        return self.capacity // len(self.caches)

    @property
    def movable(self) -> int:
        """Slots that held experts leave to all others; at least one."""
        return len(self._slots) - len(self._held)

    @property
    def any_slot(self) -> int:
        return self._slots[0]

    def join(self, cache: LayerCache) -> int:
        """Adds a layer; the key of its expert 0."""
        self.caches.append(cache)
        self._experts += cache.num_experts
        self._sized()
        return (len(self.caches) - 1) * LAYER_KEYS

    def owner(self, key: int) -> tuple[LayerCache, int]:
        return self.caches[key // LAYER_KEYS], key % LAYER_KEYS

    def idle(self, key: int) -> bool:
        """Whether the expert is resident and no call uses it: only then may it lose its slot,
        whoever asks for it, and whichever layer of the pool the slot is wanted for."""
        cache, expert = self.owner(key)
        return bool(cache.resident[expert]) and not cache.in_use(expert)

    def evict(self, count: int, allowed: Callable[[int], bool] = lambda key: True) -> int:
        """Frees up to `count` slots of idle experts by the policy's choice; how many it freed.
        allowed: of keys, which experts the caller lets go."""
        if count <= 0:
            return 0
        victims = self.policy.victims(count, lambda key: self.idle(key) and allowed(key))
        for key in victims:
            self.give_up(key)
        return len(victims)

    def give_up(self, key: int) -> None:
        """The expert, which is idle, loses its slot."""
        cache, expert = self.owner(key)
        assert self.idle(key), f"expert {expert} is in use or being read: it keeps its slot"
        cache.drop(expert)
        cache.evictions += 1

    def hold(self, key: int) -> bool:
        if key not in self._held and self.movable == 1:
            return False
        self._held[key] = None
        self.policy.remove(key)
        return True

    def unhold(self, key: int) -> None:
        if self._held.pop(key, key) is None:
            cache, expert = self.owner(key)
            if cache.has_slot(expert):
                self.policy.admit(key)

    def holds(self, key: int) -> bool:
        return key in self._held

    def shrink(self, capacity: int) -> list[int]:
        """Gives up slots until `capacity` are left; returns them. Nothing may be in use.

        Experts that would leave others no slot are held no longer, those held last first.
        """
        while self._held and len(self._held) >= capacity:
            self.unhold(next(reversed(self._held)))
        self.evict(len(self._slots) - capacity - len(self.free))
        given = [self.free.pop() for _ in range(len(self._slots) - capacity) if self.free]
        kept = frozenset(given)
        self._slots = [slot for slot in self._slots if slot not in kept]
        self._sized()
        return given

    def grow(self, slots: list[int]) -> None:
        self._slots += slots
        self.free += slots
        self._sized()

    def recover(self) -> None:
        """After a call was broken off, at whatever point: nothing is in use or loading, and no slot
        is lost."""
        used = {slot for cache in self.caches for slot in cache.recover()}
        self.free = sorted(set(self._slots) - used, reverse=True)

    def _sized(self) -> None:
        self.roomy = len(self._slots) >= self._experts

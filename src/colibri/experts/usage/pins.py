"""Which experts are pinned: kept in the cache for good, because they are selected most.

A pin costs no read of its own: an expert that is to be pinned is held from the moment a call has
brought it in, and until then its slot serves whatever else is asked for.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from colibri.config import parse_bytes
from colibri.experts.usage.counts import Counts, Heat

FREE_TOKENS = 2  # a layer keeps free slots for the experts of so many tokens
AUTO_SHARE = 0.5  # of a layer's slots that `auto` pins at most
ENOUGH_SELECTIONS = 32  # an expert, on average, before `auto` pins anything
MOST_SWAPS = 4  # a layer, at each safe point
HYSTERESIS = 0.25  # by how much hotter an expert must be than the pinned one it replaces


@dataclass(frozen=True)
class CachedLayer:
    """One layer of the expert cache, as far as pinning is concerned."""

    slots: int
    experts: int
    slot_bytes: int

    @property
    def complete(self) -> bool:
        return self.slots >= self.experts


@dataclass(frozen=True)
class PinLimits:
    most: Mapping[int, int]  # pins, by layer
    nbytes: int  # of all pins together
    asked_bytes: int  # more than nbytes where the wish had to be clamped


def pin_limits(wish: str, layers: Mapping[int, CachedLayer], experts_per_token: int) -> PinLimits:
    """How much may be pinned, so that the rest of every layer still works as a cache.

    wish: the setting `pin`; a share is one of the expert cache. A layer keeps free slots for the
    experts of two tokens, or half of its slots where that is less; `auto` keeps both free. A layer
    whose experts all fit needs no pins.
    """
    most = {n: _most(layer, experts_per_token, wish == "auto") for n, layer in layers.items()}
    room = sum(count * layers[n].slot_bytes for n, count in most.items())
    partial = [layer for layer in layers.values() if not layer.complete]
    if wish == "0" or not partial:
        asked = 0
    elif wish == "auto":
        asked = room
    elif wish == "all":
        asked = sum(layer.experts * layer.slot_bytes for layer in partial)
    else:
        asked = parse_bytes(wish, total=sum(layer.slots * layer.slot_bytes for layer in partial))
    return PinLimits(most, min(asked, room), asked)


def _most(layer: CachedLayer, experts_per_token: int, auto: bool) -> int:
    if layer.complete:
        return 0
    tokens, share = FREE_TOKENS * experts_per_token, layer.slots - int(layer.slots * AUTO_SHARE)
    free = max(tokens, share) if auto else min(tokens, share)
    return max(0, layer.slots - free)


class Pins:
    """The experts that are to be pinned, layer by layer; changes little at a time."""

    def __init__(self, wish: str, experts_per_token: int) -> None:
        self._wish = wish
        self._experts_per_token = experts_per_token
        self._pinned: dict[int, list[int]] = {}

    @property
    def on_trial(self) -> bool:
        """Whether pins are held only where they are seen to pay; otherwise the user wants them."""
        return self._wish == "auto"

    def revise(self, counts: Counts, layers: Mapping[int, CachedLayer]) -> dict[int, list[int]]:
        """The pins from now on, by layer: what is hottest by now, within what may be pinned."""
        if self._wish == "auto" and not enough(counts):
            return self._pinned
        limits = pin_limits(self._wish, layers, self._experts_per_token)
        quotas = _quotas(counts.heat, limits, layers)
        self._pinned = {
            n: revised(self._pinned.get(n, []), counts.heat[n], quota)
            for n, quota in quotas.items()
        }
        return self._pinned


def enough(counts: Counts) -> bool:
    """Whether the counts say something of the expert to come."""
    experts = sum(len(heat) for heat in counts.heat.values())
    return counts.total_selections >= ENOUGH_SELECTIONS * experts


def _quotas(
    heat: Mapping[int, Heat], limits: PinLimits, layers: Mapping[int, CachedLayer]
) -> dict[int, int]:
    """Pins a layer: all layers' experts in the order of heat a byte, as long as there is room."""
    quotas = dict.fromkeys(limits.most, 0)
    room = limits.nbytes
    ranked = [
        (-value / layers[n].slot_bytes, n)
        for n in limits.most
        for value in heat[n].tolist()
        if value > 0
    ]
    for _, n in sorted(ranked):
        if quotas[n] < limits.most[n] and layers[n].slot_bytes <= room:
            quotas[n] += 1
            room -= layers[n].slot_bytes
    return quotas


def revised(pinned: Collection[int], heat: Heat, quota: int) -> list[int]:
    """One layer's pins, hottest first: free places are filled, and a few cold pins give way to
    experts that are clearly hotter."""
    kept = sorted(pinned, key=lambda e: (-heat[e], e))[:quota]
    hot = np.argsort(-heat, kind="stable").tolist()
    others = [e for e in hot if heat[e] > 0 and e not in pinned]
    new = others[: quota - len(kept)]
    for hotter in others[len(new) : len(new) + MOST_SWAPS]:
        if not kept or heat[hotter] <= heat[kept[-1]] * (1 + HYSTERESIS):
            break
        kept.pop()
        new.append(hotter)
    return sorted([*kept, *new], key=lambda e: (-heat[e], e))

"""The caches of all layers over one arena, with a pool of slots a layer or one a slot size."""

import math
from collections.abc import Mapping
from typing import Literal

from colibri.container.layerexperts import LayerExperts
from colibri.experts.arena import Arena
from colibri.experts.cache import LayerCache
from colibri.experts.policies import make_policy
from colibri.experts.pool import SlotPool

# Whether a layer keeps its slots, or gives them up to any other layer with slots of their size.
Scope = Literal["layer", "global"]


def make_caches(
    layers: Mapping[int, LayerExperts], slots: Mapping[int, int], policy: str, scope: Scope
) -> tuple[Arena, dict[int, LayerCache]]:
    """slots: of each layer. Raises ConfigError for an unknown policy, CapacityError."""
    groups = _groups(layers, scope)
    sizes = {n: layer.slot_bytes for n, layer in layers.items()}
    arena = Arena(_by_size(sizes, slots))
    caches: dict[int, LayerCache] = {}
    for group in groups:
        taken = arena.take(sizes[group[0]], sum(slots[n] for n in group))
        pool = SlotPool(taken, make_policy(policy))
        caches.update({n: LayerCache(layers[n].num_experts, pool) for n in group})
    return arena, dict(sorted(caches.items()))


def resize(
    arena: Arena,
    layers: Mapping[int, LayerExperts],
    caches: Mapping[int, LayerCache],
    slots: Mapping[int, int],
) -> None:
    """New capacities; what is given up goes back to the system before anything is taken."""
    pools = {n: cache.pool for n, cache in caches.items()}
    wanted = {pool: sum(slots[n] for n in pools if pools[n] is pool) for pool in pools.values()}
    for pool, capacity in wanted.items():
        arena.give_back(pool.shrink(capacity))
    for n, pool in pools.items():
        pool.grow(arena.take(layers[n].slot_bytes, wanted[pool] - pool.capacity))


def shrink(
    arena: Arena,
    layers: Mapping[int, LayerExperts],
    caches: Mapping[int, LayerCache],
    nbytes: int,
) -> int:
    """Gives at least so much memory that slots have taken back to the system, in equal shares, as
    far as a slot a layer is left; how much it was. Slots that were not used yet are gone too: they
    would take it again."""
    sizes = {cache.pool: layers[n].slot_bytes for n, cache in caches.items()}
    used = {pool: pool.capacity - len(pool.free) for pool in sizes}
    taken = sum(used[pool] * size for pool, size in sizes.items())
    left = max(0.0, 1 - nbytes / taken) if taken else 1.0
    for pool in sizes:
        keep = max(len(pool.caches), math.floor(used[pool] * left))
        arena.give_back(pool.shrink(min(keep, pool.capacity)))
    return taken - sum((pool.capacity - len(pool.free)) * size for pool, size in sizes.items())


def _groups(layers: Mapping[int, LayerExperts], scope: Scope) -> list[list[int]]:
    """The layers that share a pool."""
    if scope == "layer":
        return [[n] for n in layers]
    groups: dict[int, list[int]] = {}
    for n, layer in layers.items():
        groups.setdefault(layer.slot_bytes, []).append(n)
    return list(groups.values())


def _by_size(sizes: Mapping[int, int], slots: Mapping[int, int]) -> dict[int, int]:
    total: dict[int, int] = {}
    for n, size in sizes.items():
        total[size] = total.get(size, 0) + slots[n]
    return total

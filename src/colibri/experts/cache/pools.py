"""The caches of all layers, with a pool of slots a layer or one a slot size."""

import math
from collections.abc import Callable, Mapping

from colibri.config.choices import CacheScope
from colibri.errors import ConfigError
from colibri.experts.cache.arena import Arena
from colibri.experts.cache.layer import LayerCache
from colibri.experts.cache.narrow import Kept
from colibri.experts.cache.policies import make_policy
from colibri.experts.cache.pool import SlotPool

# Whether a layer keeps its slots, or gives them up to any other layer with slots of their size.
Take = Callable[[int, int], list[int]]  # slots of a size, so many


def make_caches(
    experts: Mapping[int, int],
    sizes: Mapping[int, int],
    slots: Mapping[int, int],
    policy: str,
    scope: CacheScope,
    take: Take,
) -> dict[int, LayerCache]:
    """experts, sizes, slots: by layer, how many, bytes of a slot, how many.

    Raises ConfigError for an unknown policy.
    """
    caches: dict[int, LayerCache] = {}
    for group in _groups(sizes, scope):
        taken = take(sizes[group[0]], sum(slots[n] for n in group))
        pool = SlotPool(taken, make_policy(policy))
        caches.update({n: LayerCache(experts[n], pool) for n in group})
    return dict(sorted(caches.items()))


def slots_by_layer(
    layers: Mapping[int, Kept], slots_per_layer: Mapping[int, int] | int, scope: CacheScope
) -> dict[int, int]:
    """At most as many as a layer has experts. Raises ConfigError for less than one, which in the
    global scope any layer of the same slots may have for the others."""
    capacities = {}
    for layer, source in layers.items():
        wanted = slots_per_layer if isinstance(slots_per_layer, int) else slots_per_layer[layer]
        capacities[layer] = min(wanted, source.num_experts)
    for group in _groups({n: source.slot_bytes for n, source in layers.items()}, scope):
        if (held := sum(capacities[n] for n in group)) < 1:
            raise ConfigError(
                f"{held} cached experts for layer {group[0]}: at least 1 is needed "
                "(--cache-experts, or more --ram)"
            )
    return capacities


def make_arena(sizes: Mapping[int, int], slots: Mapping[int, int]) -> Arena:
    """Room for all layers' slots. Raises CapacityError."""
    total: dict[int, int] = {}
    for n, size in sizes.items():
        total[size] = total.get(size, 0) + slots[n]
    return Arena(total)


def resize(
    arena: Arena,
    layers: Mapping[int, Kept],
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
    layers: Mapping[int, Kept],
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


def _groups(sizes: Mapping[int, int], scope: CacheScope) -> list[list[int]]:
    """The layers that share a pool."""
    if scope == "layer":
        return [[n] for n in sizes]
    groups: dict[int, list[int]] = {}
    for n, size in sizes.items():
        groups.setdefault(size, []).append(n)
    return list(groups.values())

"""What a miss costs the bookkeeping, by the number of slots: the cache, its policy and no reads.

    python benchmarks/cache_miss_cost.py

Prints the table of docs/cache.md: microseconds a miss, the median of several runs.
"""

from __future__ import annotations

import statistics
import time

import numpy as np

from colibri.experts.cache.policies import POLICIES
from colibri.lab.replay.caches import CacheReplay
from colibri.lab.replay.demands import Demand
from colibri.routing.trace import LayerFacts

SLOTS = (8, 64, 512, 4096)
K, CALLS, RUNS = 8, 2000, 5


def calls(experts: int, count: int, seed: int) -> list[Demand]:
    """Eight experts a call, uniformly drawn: a constant share of misses."""
    rng = np.random.default_rng(seed)
    found = []
    for step in range(count):
        union = np.unique(rng.integers(0, experts, K)).astype(np.int32)
        found.append(Demand(0, union.tolist(), union, False, False, step))
    return found


def cost(policy: str, slots: int) -> float:
    """Seconds a miss, full and warm."""
    experts = 8 * slots  # seven of eight asked for are missing
    cache = CacheReplay([LayerFacts(0, experts, K, 1, 1)], {0: slots}, policy, "layer")
    for demand in calls(experts, 2 * slots // K + 100, 1):
        cache.call(demand)
    cache.forget_counts()
    traffic = calls(experts, CALLS, 2)
    begin = time.perf_counter()
    for demand in traffic:
        cache.call(demand)
    return (time.perf_counter() - begin) / cache.tally().total.misses


def main() -> None:
    print("| policy | " + " | ".join(f"{n} slots" for n in SLOTS) + " |")
    print("|---" * (len(SLOTS) + 1) + "|")
    for policy in POLICIES:
        # In turn, so that a slow moment of the machine hits all alike.
        runs = [[cost(policy, slots) for slots in SLOTS] for _ in range(RUNS)]
        medians = [statistics.median(column) * 1e6 for column in zip(*runs, strict=True)]
        print(f"| {policy} | " + " | ".join(f"{m:.1f}" for m in medians) + " |")


if __name__ == "__main__":
    main()

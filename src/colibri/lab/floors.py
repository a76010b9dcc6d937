"""Floors: the least time that a run's bytes allow at the run's own rates. docs/benchmarks.md has
the formulas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from colibri.container.layerexperts import LayerExperts
from colibri.container.reader import Container
from colibri.lab.clock import StepRecord, by_layer
from colibri.lab.counters import Counters
from colibri.planner.model import expert_bytes, kept_layers, streamed_layers
from colibri.planner.plan import Plan

# Time that is not the routed experts' and cannot overlap with reads that the layer itself decides.
_DENSE = ("route", "shared_expert", "attention", "dense", "head", "sampling")


def weight_bytes(container: Container, plan: Plan, experts_per_token: Mapping[int, int]) -> int:
    """Bytes of weights that one token touches: the trunk as loaded, the head, k experts a layer as
    the cache keeps them.

    experts_per_token: by layer. An embedding row is nothing beside them; a tied head is all rows.
    """
    layers = kept_layers(streamed_layers(container), plan.cache_bits)
    experts = sum(k * expert_bytes(layers[n].layout) for n, k in experts_per_token.items())
    tied = "lm_head.weight" not in container.weights.required
    return plan.trunk_bytes + (plan.embedding_bytes if tied else 0) + experts


def kv_bytes(plan: Plan, mean_length: float) -> int:
    """Bytes of keys and values that a token of this mean context reads."""
    return int(plan.state_bytes / plan.context * mean_length)


def disk_floor(
    records: Sequence[StepRecord], layers: Mapping[int, LayerExperts], disk_bandwidth: float
) -> float:
    """Seconds: over steps and layers, dense time + max(time to read the misses, the hits' time)."""
    return sum(_step_floor(record, layers, disk_bandwidth) for record in records)


def _step_floor(
    record: StepRecord, layers: Mapping[int, LayerExperts], disk_bandwidth: float
) -> float:
    total = 0.0
    for layer, phases in by_layer(record).items():
        hits, misses = record.traffic.layers.get(layer, (0, 0))
        resident = phases["expert_matmul"] * (hits / (hits + misses) if hits + misses else 1.0)
        read = misses * layers[layer].slot_bytes / disk_bandwidth if misses else 0.0
        total += sum(phases[name] for name in _DENSE) + max(read, resident)
    return total


def hit_rate(traffic: Sequence[Counters]) -> float | None:
    hits = sum(h for t in traffic for h, _ in t.layers.values())
    asked = sum(h + m for t in traffic for h, m in t.layers.values())
    return hits / asked if asked else None

"""What a plan will be worth: bytes a token, hits, tokens a second and what holds them back.

The time of a token is the floor of docs/benchmarks.md: over layers, dense + max(what is missing
read from disk, what is there multiplied). "At most" is that floor; "about" allows the share of
each rate that the engine has been measured to reach, and the interpreter's own time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from colibri.planner.hits import expected_hit_rate
from colibri.planner.model import Model, expert_bytes, kept_layers, streamed_layers
from colibri.planner.plan import Plan

# docs/benchmarks.md: resident decode reaches 80-82 % of its floor, of which a twentieth is the
# interpreter; streamed decode, where the disk holds it back (a cache of a quarter), 79-81 %: reads
# run at 98 % of what the disk gives in bursts, and between bursts it idles.
MEMORY_SHARE, DISK_SHARE = 0.85, 0.80
# What the interpreter takes of a token and of each of its layers (docs/benchmarks.md).
TOKEN_SECONDS, LAYER_SECONDS = 400e-6, 40e-6

Bottleneck = Literal["disk", "memory", "compute", "interpreter"]
Popularity = Mapping[int, Sequence[float]]  # of each layer's experts


@dataclass(frozen=True)
class Rates:
    """Bytes a second; None: not known."""

    memory: float | None = None  # read by the threads of arithmetic
    disk: float | None = None  # of experts read at random
    compute: float | None = None  # of weights multiplied that are in the processor's caches

    def attained(self) -> "Rates":
        """What the engine makes of them."""
        return Rates(
            None if self.memory is None else self.memory * MEMORY_SHARE,
            None if self.disk is None else self.disk * DISK_SHARE,
            self.compute,
        )

    @property
    def arithmetic(self) -> float | None:
        return min((r for r in (self.memory, self.compute) if r is not None), default=None)


@dataclass(frozen=True)
class LayerForecast:
    dense_bytes: int  # trunk
    expert_bytes: int  # of a token's experts
    miss_bytes: float  # read from disk per token
    hit_rate: float


@dataclass(frozen=True)
class Forecast:
    """Of a token decoded at half of the context, with a warm cache. Without a rate that is needed
    speeds are None."""

    hit_rate: float | None  # None: nothing is routed
    hits_from: Literal["even draws", "usage"]
    memory_bytes_per_token: int
    disk_bytes_per_token: int
    tokens_per_second: float | None  # about
    most_tokens_per_second: float | None
    bottleneck: Bottleneck | None
    layers: Mapping[int, LayerForecast]


def forecast(
    plan: Plan, model: Model, rates: Rates, popularity: Popularity | None = None
) -> Forecast:
    """popularity: of the experts of each layer, where usage is known."""
    layers = _layers(plan, model, popularity or {})
    outer = _outer_bytes(plan)
    asked = sum(layer.expert_bytes for layer in layers.values())
    hits = sum(layer.hit_rate * layer.expert_bytes for layer in layers.values())
    attained = rates.attained()
    return Forecast(
        hit_rate=hits / asked if asked else None,
        hits_from="usage" if popularity else "even draws",
        memory_bytes_per_token=outer + asked + sum(n.dense_bytes for n in layers.values()),
        disk_bytes_per_token=round(sum(layer.miss_bytes for layer in layers.values())),
        tokens_per_second=_speed(layers, outer, attained, _interpreter_seconds(layers)),
        most_tokens_per_second=_speed(layers, outer, rates, 0.0),
        bottleneck=_bottleneck(layers, outer, attained),
        layers=layers,
    )


def _layers(plan: Plan, model: Model, popularity: Popularity) -> dict[int, LayerForecast]:
    streamed = streamed_layers(model)
    kept = kept_layers(streamed, plan.cache_bits)
    found = {}
    for n in sorted({*plan.layer_trunk_bytes, *streamed}):
        dense = plan.layer_trunk_bytes.get(n, 0)
        if n not in streamed:
            found[n] = LayerForecast(dense, 0, 0.0, 1.0)
            continue
        layer = streamed[n]
        k = min(plan.experts_per_token, layer.num_experts)
        drawn = popularity.get(n) or [1.0] * layer.num_experts
        hit_rate = expected_hit_rate(plan.slots[n], k, drawn)
        missed = k * (1 - hit_rate) * layer.slot_bytes
        found[n] = LayerForecast(dense, k * expert_bytes(kept[n].layout), missed, hit_rate)
    return found


def _outer_bytes(plan: Plan) -> int:
    """What is outside of layers: head and norm, and the state of half a context."""
    head = plan.head_bytes or plan.embedding_bytes
    outer = plan.trunk_bytes - plan.head_bytes - sum(plan.layer_trunk_bytes.values())
    return head + outer + plan.state_bytes // 2


def _interpreter_seconds(layers: Mapping[int, LayerForecast]) -> float:
    return TOKEN_SECONDS + LAYER_SECONDS * len(layers)


def _speed(
    layers: Mapping[int, LayerForecast], outer: int, rates: Rates, besides: float
) -> float | None:
    """besides: seconds a token that no rate decides."""
    arithmetic, disk = rates.arithmetic, rates.disk
    if arithmetic is None or (disk is None and any(n.miss_bytes for n in layers.values())):
        return None
    seconds = besides + outer / arithmetic
    for layer in layers.values():
        read = layer.miss_bytes / disk if disk else 0.0
        seconds += layer.dense_bytes / arithmetic + max(read, layer.expert_bytes / arithmetic)
    return 1 / seconds if seconds else None


def _bottleneck(layers: Mapping[int, LayerForecast], outer: int, rates: Rates) -> Bottleneck | None:
    """What a token waits for most."""
    arithmetic, disk = rates.arithmetic, rates.disk
    missed = sum(layer.miss_bytes for layer in layers.values())
    if arithmetic is None or (disk is None and missed):
        return None
    multiplied = outer + sum(n.dense_bytes + n.expert_bytes for n in layers.values())
    read = missed / disk if disk else 0.0
    if _interpreter_seconds(layers) > max(read, multiplied / arithmetic):
        return "interpreter"
    if read > multiplied / arithmetic:
        return "disk"
    return "memory" if rates.memory is not None and rates.memory <= arithmetic else "compute"

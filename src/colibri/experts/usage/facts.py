"""What usage says of a model: how unevenly its experts are used, and which are used most."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from colibri.experts.usage.counts import Counts, Heat


def share_of_hottest(heat: Heat, part: float) -> float:
    """Share of the heat that the hottest `part` (0..1) of the experts holds, at least one."""
    total = float(heat.sum())
    if not total:
        return 0.0
    count = max(1, math.ceil(part * len(heat)))
    return float(np.sort(heat)[::-1][:count].sum()) / total


def share_over_layers(heat: Mapping[int, Heat], part: float) -> float:
    """The same with the hottest part of every layer: what pinning these would make hits."""
    total = sum(float(h.sum()) for h in heat.values())
    held = sum(share_of_hottest(h, part) * float(h.sum()) for h in heat.values())
    return held / total if total else 0.0


def hottest(heat: Heat, count: int) -> list[tuple[int, float]]:
    """(expert, share of the layer's heat), hottest first; never used ones are left out."""
    order = np.argsort(-heat, kind="stable")[:count].tolist()
    total = float(heat.sum())
    return [(expert, float(heat[expert]) / total) for expert in order if heat[expert] > 0]


def rows(counts: Counts) -> list[tuple[int, int, float, float]]:
    """(layer, expert, heat, share of the layer's heat) of every expert, in order."""
    return [
        (layer, expert, value, value / max(float(heat.sum()), 1e-300))
        for layer, heat in counts.heat.items()
        for expert, value in enumerate(heat.tolist())
    ]

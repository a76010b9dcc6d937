"""Two results side by side: ratios, and whether they are more than the runs' own spread."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from colibri.lab.clock import PHASES
from colibri.lab.results import Results
from colibri.lab.units import percent

# Where the value is, and whether more is better (None: neither).
_METRICS: tuple[tuple[str, bool | None], ...] = (
    ("prefill.tps", True),
    ("prefill.floor_fraction", True),
    ("prefill.hit_rate", True),
    ("prefill.bytes_read", False),
    ("decode.tps", True),
    ("decode.floor_fraction", True),
    ("decode.disk_floor_fraction", True),
    ("decode.hit_rate", True),
    ("decode.bytes_read_per_token", False),
    ("decode.wait_seconds_per_token", False),
    ("decode.token_seconds.p50", False),
    ("decode.token_seconds.p95", False),
    ("decode.token_seconds.p99", False),
    *((f"decode.phases.{name}.seconds", False) for name in PHASES),
    ("ttft_seconds", False),
    ("load_seconds", False),
    ("peak_rss_bytes", False),
    ("hardware.memory_bandwidth", None),
    ("hardware.disk_bandwidth", None),
)
_SAME_GROUPS = ("model", "workload", "settings", "hardware")
_MEASURED = (
    "hardware.memory_bandwidth",
    "hardware.memory_bandwidth_samples",
    "hardware.disk_bandwidth",
    "hardware.disk_bandwidth_samples",
    "hardware.burst_bandwidth",
    "hardware.burst_bandwidth_samples",
    "settings.model",
)


def comparison(a: Results, b: Results) -> list[str]:
    """Lines for a terminal; what was set differently comes first."""
    one, other = msgspec.to_builtins(a), msgspec.to_builtins(b)
    found = [f"differs  {line}" for line in differences(one, other)]
    found.append(f"{'':<38}{'A':>12}{'B':>12}{'B / A':>9}")
    for name, more in _METRICS:
        found.append(_line(name, more, _at(one, name), _at(other, name), _noise(a, b, name)))
    for name in ("prefill", "decode"):
        spreads = " and ".join(percent(_at(r, f"{name}.tps_spread")) for r in (one, other))
        found.append(f"spread of runs, {name}: {spreads}")
    return found


def differences(one: dict[str, Any], other: dict[str, Any]) -> Iterator[str]:
    """What is not the same in model, workload, settings and machine."""
    for group in _SAME_GROUPS:
        for key, value in one[group].items():
            name = f"{group}.{key}"
            if name not in _MEASURED and value != other[group].get(key):
                yield f"{name}: {value} -> {other[group].get(key)}"


def _at(results: dict[str, Any], name: str) -> float | None:
    value: Any = results
    for key in name.split("."):
        value = value[key]
    return None if value is None else float(value)


def _noise(a: Results, b: Results, name: str) -> float | None:
    """Half the spreads of both together; known for what follows from the rates."""
    if "bytes" in name or "hit_rate" in name:
        return None
    for prefix, of in (("prefill.", lambda r: r.prefill), ("decode.", lambda r: r.decode)):
        part: Callable[[Results], Any] = of
        if name.startswith(prefix):
            return float(part(a).tps_spread + part(b).tps_spread) / 2
    return None


def _line(
    name: str, more: bool | None, a: float | None, b: float | None, noise: float | None
) -> str:
    text = f"{name:<38}{_short(a):>12}{_short(b):>12}"
    if not a or b is None:
        return text
    return f"{text}{b / a:>9.3f}  {_verdict(more, b / a, noise)}".rstrip()


def _verdict(more: bool | None, ratio: float, noise: float | None) -> str:
    if more is None or ratio == 1:
        return ""
    if noise is not None and abs(ratio - 1) <= noise:
        return "within the spread"
    return "better" if (ratio > 1) is more else "worse"


def _short(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"

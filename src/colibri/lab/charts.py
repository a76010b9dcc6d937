"""The charts of a report as inline SVG: no script, colours by CSS variable."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from colibri.lab import units
from colibri.lab.clock import PHASES
from colibri.lab.results import Layer, TimelineSpan

_WIDTH, _LEFT, _RIGHT = 1000, 84, 16
_PLOT = _WIDTH - _LEFT - _RIGHT
_ROW, _BAR = 18, 12
_OUTSIDE = "outside"


@dataclass(frozen=True)
class Bar:
    start: float
    length: float
    phase: str  # names the colour
    title: str


def legend(names: Iterable[str]) -> str:
    items = (f'<li><i style="background:var(--{n})"></i>{n.replace("_", " ")}</li>' for n in names)
    return f'<ul class="legend">{"".join(items)}</ul>'


def rows(
    label: str, names: Sequence[str], bars: Sequence[Sequence[Bar]], most: float, unit: str
) -> str:
    """Horizontal bars, a row a name, on one scale from 0 to most; unit: "time" or "percent"."""
    height = _ROW * len(names) + 26
    parts = [_grid(most, height, unit)]
    for index, (name, row) in enumerate(zip(names, bars, strict=True)):
        y = _ROW * index + 3
        parts.append(f'<text class="end" x="{_LEFT - 8}" y="{y + 10}">{escape(name)}</text>')
        parts += [_rect(bar, y, most) for bar in row]
    return (
        f'<div class="chart"><svg viewBox="0 0 {_WIDTH} {height}" role="img" '
        f'aria-label="{escape(label)}">{"".join(parts)}</svg></div>'
    )


def timeline(spans: Sequence[TimelineSpan]) -> str:
    """One token from left to right, a row a layer: when each phase ran."""
    layers = sorted({s.layer for s in spans})
    most = max(s.begin + s.seconds for s in spans)
    bars = [[b for s in spans if s.layer == n for b in _pieces(s)] for n in layers]
    return rows("Timeline of a token", [_name(n) for n in layers], bars, most, "time")


def phases_by_layer(layers: Sequence[Layer]) -> str:
    """Mean time of each layer, split by phase."""
    most = max(sum(n.phases.values()) for n in layers)
    bars = [_stack(n.phases) for n in layers]
    return rows("Phases by layer", [_name(n.layer) for n in layers], bars, most, "time")


def hit_rate(layers: Sequence[Layer]) -> str:
    found = [n for n in layers if n.hits + n.misses]
    shares = [n.hits / (n.hits + n.misses) for n in found]
    bars = [[Bar(0, s, "expert_matmul", units.percent(s))] for s in shares]
    return rows("Hit rate by layer", [_name(n.layer) for n in found], bars, 1.0, "percent")


def disk_and_compute(layers: Sequence[Layer], disk_bandwidth: float) -> str:
    """Two rows a layer: the least time its misses take to read, and its arithmetic."""
    names: list[str] = []
    bars: list[list[Bar]] = []
    for layer in layers:
        if layer.hits + layer.misses:
            read = layer.missed_bytes / disk_bandwidth
            names += [_name(layer.layer), ""]
            bars.append([Bar(0, read, "expert_wait", f"disk {units.time(read)}")])
            bars.append(_stack(layer.phases, leave_out=("expert_wait", "python")))
    most = max((bar.start + bar.length for row in bars for bar in row), default=0.0)
    return rows("Disk against compute by layer", names, bars, most, "time")


def utilisation(shares: Sequence[tuple[str, float, str]]) -> str:
    """(name, share, what the whole is)."""
    bars = [[Bar(0, min(s, 1.0), "expert_matmul", f"{units.percent(s)} {w}")] for _, s, w in shares]
    names = [name for name, _, _ in shares]
    return rows("Utilisation in decode", names, bars, 1.0, "percent")


def _name(layer: int) -> str:
    return _OUTSIDE if layer < 0 else f"layer {layer}"


def _pieces(span: TimelineSpan) -> list[Bar]:
    """Kernels, wait and the rest, one after the other: their order within a span is not known."""
    own = "expert_matmul" if span.phase == "experts" else span.phase
    rest = span.seconds - span.native - span.wait
    bars, at = [], span.begin
    for name, seconds in ((own, span.native), ("expert_wait", span.wait), ("python", rest)):
        if seconds > 0:
            bars.append(Bar(at, seconds, name, f"{name} {units.time(seconds)}"))
            at += seconds
    return bars


def _stack(phases: Mapping[str, float], leave_out: Sequence[str] = ()) -> list[Bar]:
    bars, at = [], 0.0
    for name in PHASES:
        seconds = phases[name]
        if seconds > 0 and name not in leave_out:
            bars.append(Bar(at, seconds, name, f"{name} {units.time(seconds)}"))
            at += seconds
    return bars


def _rect(bar: Bar, y: int, most: float) -> str:
    scale = _PLOT / most if most else 0.0
    x, width = _LEFT + bar.start * scale, max(bar.length * scale, 0.4)
    return (
        f'<rect x="{x:.2f}" y="{y}" width="{width:.2f}" height="{_BAR}" '
        f'fill="var(--{bar.phase})"><title>{escape(bar.title)}</title></rect>'
    )


def _grid(most: float, height: int, unit: str) -> str:
    parts = []
    for step in range(5):
        x, value = _LEFT + _PLOT * step / 4, most * step / 4
        text = units.percent(value) if unit == "percent" else units.time(value)
        parts.append(f'<line class="grid" x1="{x}" y1="0" x2="{x}" y2="{height - 18}"/>')
        anchor = ' class="end"' if step == 4 else ""
        parts.append(f'<text{anchor} x="{x}" y="{height - 4}">{text}</text>')
    return "".join(parts)

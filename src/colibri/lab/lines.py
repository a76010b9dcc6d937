"""A line chart of shares, as SVG and as PNG, from one geometry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from itertools import pairwise
from math import ceil, floor

from colibri.lab.png import Canvas

_WIDTH, _HEIGHT = 900, 420
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 150, 34, 44
# The dashboard's categories: told apart by the colour-blind too, on light ground and on dark.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b58900", "#56b4e9", "#7a5cc2", "#8b9898")
_DASHES = ("", "8 4", "2 3", "10 3 2 3")
_STEPS = (0.01, 0.02, 0.05, 0.1, 0.2)  # between two lines of the grid
_MOST_LINES = 6
_BESIDE = 7  # pixels between the points of two curves: equal ones do not hide each other
_GRID, _TEXT = "#cccccc", "#333333"
_MARKS = (
    ((-4, -4), (4, -4), (4, 4), (-4, 4)),
    ((0, -5), (5, 4), (-5, 4)),
    ((0, -6), (5, 0), (0, 6), (-5, 0)),
    ((0, 5), (5, -4), (-5, -4)),
)
Points = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class LineChart:
    title: str
    x_label: str
    labels: Sequence[str]  # evenly spaced from left to right
    series: Mapping[str, Sequence[float | None]]  # shares from 0 to 1; None: no point

    def svg(self) -> str:
        """For a page of the lab, whose style sheet colours grid and text."""
        parts = [_svg_line(a, b) for a, b, _ in self._grid()]
        parts += [_svg_text(at, text, anchor) for at, text, anchor in self._texts()]
        for n, (name, points) in enumerate(self._curves()):
            drawn = _svg_curve(points, n, points)
            parts.append(f"<g>{drawn}<title>{escape(name)}</title></g>")
        for n, ((x, y), name, _) in enumerate(self._legend()):
            parts.append(_svg_curve([(x, y), (x + 30, y)], n, [(x + 15, y)]))
            parts.append(_svg_text((x + 38, y), name, "start"))
        return (
            f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
            f'aria-label="{escape(self.title)}">{"".join(parts)}</svg>'
        )

    def png(self) -> bytes:
        canvas = Canvas(_WIDTH, _HEIGHT)
        for a, b, _ in self._grid():
            canvas.line(a, b, _GRID, 1)
        for at, text, anchor in self._texts():
            canvas.text(at, text, _TEXT, anchor)
        for (_, points), colour in zip(self._curves(), COLOURS * 4, strict=False):
            for a, b in pairwise(points):
                canvas.line(a, b, colour, 3)
            for point in points:
                canvas.dot(point, colour)
        for at, name, colour in self._legend():
            canvas.text(at, name, colour, "start")
        return canvas.encode()

    def _x(self, index: int, curve: float = 0) -> float:
        """curve: how many curves to the right of the middle one."""
        room = _WIDTH - _LEFT - _RIGHT
        return _LEFT + room * (index + 0.5) / len(self.labels) + _BESIDE * curve

    @cached_property
    def _shares(self) -> list[float]:
        """Of the grid's lines, around the curves: those that lie close are drawn apart."""
        values = [v for points in self.series.values() for v in points if v is not None]
        low, high = (min(values), max(values)) if values else (0.0, 1.0)
        for step in _STEPS:
            first, last = floor(low / step + 1e-9), max(1, ceil(high / step - 1e-9))
            first = min(first, last - 1)
            if last - first < _MOST_LINES:
                break
        return [n * step for n in range(first, last + 1)]

    def _y(self, share: float) -> float:
        low, high = self._shares[0], self._shares[-1]
        return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * (share - low) / (high - low)

    def _grid(self) -> list[tuple[tuple[float, float], tuple[float, float], str]]:
        return [
            ((_LEFT, self._y(s)), (_WIDTH - _RIGHT, self._y(s)), f"{s * 100:.0f} %")
            for s in self._shares
        ]

    def _texts(self) -> list[tuple[tuple[float, float], str, str]]:
        ticks = [((a[0] - 8, a[1]), text, "end") for a, _, text in self._grid()]
        below = _HEIGHT - _BOTTOM + 16
        names = [((self._x(i), below), label, "middle") for i, label in enumerate(self.labels)]
        middle = (_WIDTH - _RIGHT + _LEFT) / 2
        title = ((middle, _TOP / 2), self.title, "middle")
        return [*ticks, *names, title, ((middle, _HEIGHT - 12), self.x_label, "middle")]

    def _curves(self) -> list[tuple[str, list[tuple[float, float]]]]:
        middle = (len(self.series) - 1) / 2
        return [
            (
                name,
                [
                    (self._x(i, n - middle), self._y(v))
                    for i, v in enumerate(values)
                    if v is not None
                ],
            )
            for n, (name, values) in enumerate(self.series.items())
        ]

    def _legend(self) -> list[tuple[tuple[float, float], str, str]]:
        x = _WIDTH - _RIGHT + 12
        pairs = zip(self.series, COLOURS * 4, strict=False)
        return [((x, _TOP + 10 + 20 * n), name, colour) for n, (name, colour) in enumerate(pairs)]


def _svg_line(a: tuple[float, float], b: tuple[float, float]) -> str:
    ends = f'x1="{a[0]:.1f}" y1="{a[1]:.1f}" x2="{b[0]:.1f}" y2="{b[1]:.1f}"'
    return f'<line class="grid" {ends}/>'


def _svg_curve(points: Points, number: int, marked: Points) -> str:
    """Curve number n: colour, pattern and marks are its own."""
    colour = COLOURS[number % len(COLOURS)]
    dash = _DASHES[number % len(_DASHES)]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    line = (
        f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"'
        + (f' stroke-dasharray="{dash}"' if dash else "")
        + "/>"
    )
    return line + "".join(_svg_mark(x, y, number % len(_MARKS), colour) for x, y in marked)


def _svg_text(at: tuple[float, float], text: str, anchor: str) -> str:
    place = f'x="{at[0]:.1f}" y="{at[1] + 4:.1f}" text-anchor="{anchor}"'
    return f"<text {place}>{escape(text)}</text>"


def _svg_mark(x: float, y: float, shape: int, colour: str) -> str:
    corners = " ".join(f"{x + dx:.1f},{y + dy:.1f}" for dx, dy in _MARKS[shape])
    return f'<polygon points="{corners}" fill="{colour}"/>'

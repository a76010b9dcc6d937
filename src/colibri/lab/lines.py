"""A line chart of shares, as SVG and as PNG, from one geometry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

from colibri.lab.png import Canvas

_WIDTH, _HEIGHT = 900, 420
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 130, 34, 44
COLOURS = ("#3572b0", "#d1742f", "#3f9150", "#8a56a8", "#b3a02c", "#c0445e", "#444444", "#2aa0a4")
_GRID, _TEXT = "#cccccc", "#333333"


@dataclass(frozen=True)
class LineChart:
    title: str
    x_label: str
    labels: Sequence[str]  # evenly spaced from left to right
    series: Mapping[str, Sequence[float | None]]  # shares from 0 to 1; None: no point

    def svg(self) -> str:
        parts = [_svg_line(a, b, _GRID, 1) for a, b, _ in self._grid()]
        parts += [_svg_text(at, text, anchor) for at, text, anchor in self._texts()]
        for (name, points), colour in zip(self._curves(), COLOURS * 4, strict=False):
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
            line = f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>'
            parts.append(f"<g>{line}<title>{escape(name)}</title></g>")
        for at, name, colour in self._legend():
            parts.append(_svg_text(at, name, "start", colour))
        return (
            f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(self.title)}" '
            f'font-family="sans-serif" font-size="13">{"".join(parts)}</svg>'
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

    def _x(self, index: int) -> float:
        room = _WIDTH - _LEFT - _RIGHT
        return _LEFT + room * (index + 0.5) / len(self.labels)

    @staticmethod
    def _y(share: float) -> float:
        return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * share

    def _grid(self) -> list[tuple[tuple[float, float], tuple[float, float], str]]:
        shares = [n / 5 for n in range(6)]
        return [
            ((_LEFT, self._y(s)), (_WIDTH - _RIGHT, self._y(s)), f"{s * 100:.0f} %") for s in shares
        ]

    def _texts(self) -> list[tuple[tuple[float, float], str, str]]:
        ticks = [((a[0] - 8, a[1]), text, "end") for a, _, text in self._grid()]
        below = _HEIGHT - _BOTTOM + 16
        names = [((self._x(i), below), label, "middle") for i, label in enumerate(self.labels)]
        middle = (_WIDTH - _RIGHT + _LEFT) / 2
        title = ((middle, _TOP / 2), self.title, "middle")
        return [*ticks, *names, title, ((middle, _HEIGHT - 12), self.x_label, "middle")]

    def _curves(self) -> list[tuple[str, list[tuple[float, float]]]]:
        return [
            (name, [(self._x(i), self._y(v)) for i, v in enumerate(values) if v is not None])
            for name, values in self.series.items()
        ]

    def _legend(self) -> list[tuple[tuple[float, float], str, str]]:
        x = _WIDTH - _RIGHT + 12
        pairs = zip(self.series, COLOURS * 4, strict=False)
        return [((x, _TOP + 10 + 20 * n), name, colour) for n, (name, colour) in enumerate(pairs)]


def _svg_line(a: tuple[float, float], b: tuple[float, float], colour: str, width: int) -> str:
    ends = f'x1="{a[0]:.1f}" y1="{a[1]:.1f}" x2="{b[0]:.1f}" y2="{b[1]:.1f}"'
    return f'<line {ends} stroke="{colour}" stroke-width="{width}"/>'


def _svg_text(at: tuple[float, float], text: str, anchor: str, colour: str = "currentColor") -> str:
    place = f'x="{at[0]:.1f}" y="{at[1] + 4:.1f}" text-anchor="{anchor}"'
    return f'<text {place} fill="{colour}">{escape(text)}</text>'

"""A replay's page: in the style of the other pages, with curves that can be told apart."""

import re
from itertools import combinations

import pytest

from colibri.lab.lines import LineChart
from colibri.lab.replay.outcome import Outcome, Row
from colibri.lab.replay.table import page


def chart(*curves: list[float | None]) -> str:
    names = [f"policy {n}" for n in range(len(curves))]
    labels = [str(n) for n in range(len(curves[0]))]
    return LineChart("t", "x", labels, dict(zip(names, curves, strict=True))).svg()


def lines(svg: str) -> list[list[tuple[float, float]]]:
    """The points of the curves; those of two points are the legend's."""
    found = re.findall(r'<g><polyline points="([^"]+)"', svg)
    return [[tuple(map(float, p.split(","))) for p in points.split()] for points in found]  # type: ignore[misc]


@pytest.mark.parametrize("value", [0.0, 0.5, 0.96, 1.0])
def test_equal_curves_lie_beside_each_other(value: float) -> None:
    curves = lines(chart(*[[value] * 3] * 7))
    assert len(curves) == 7
    for one, other in combinations(curves, 2):
        assert all(abs(a[0] - b[0]) >= 6 for a, b in zip(one, other, strict=True))


def test_close_curves_are_drawn_on_a_scale_of_their_own() -> None:
    first, second = lines(chart([0.960, 0.961], [0.964, 0.969]))
    assert first[0][1] - second[0][1] > 20  # pixels of 420
    assert "96 %" in chart([0.960, 0.961], [0.964, 0.969])


@pytest.mark.parametrize("curve", [[None, None], [0.0, 1.0], [0.005, 0.005], [1.0, 1.0]])
def test_every_curve_lies_within_its_frame(curve: list[float | None]) -> None:
    svg = chart(curve)
    assert all(30 <= y <= 380 for line in lines(svg) for _, y in line)
    assert "nan" not in svg


def test_each_of_seven_curves_has_a_colour_or_pattern_of_its_own() -> None:
    svg = chart(*[[n / 10, 0.9] for n in range(7)])
    strokes = re.findall(r'<g><polyline [^>]*?(stroke="[^/]*)/>', svg)
    assert len(set(strokes)) == 7


def test_the_page_has_the_style_of_the_lab_and_asks_nobody() -> None:
    row = Row(
        policy="lru",
        resolved="lru",
        scope="layer",
        capacity="25%",
        slots={0: 2},
        ratio=1.0,
        pinned=0,
        hits=3,
        misses=1,
        decode_hits=3,
        decode_misses=1,
        evictions=0,
        reads=1,
        bytes_read=10,
        guesses_useful=0,
        guesses_wasted_bytes=0,
        layers={0: (3, 1)},
    )
    html = page(Outcome(model="<b>m", experts_per_token=2, calls=2, tokens=2, rows=[row]))
    assert "prefers-color-scheme: dark" in html
    assert html.count("<section>") == 2
    assert "<b>m" not in html
    assert "&lt;b&gt;m" in html
    assert "http" not in html

"""A phone shows what a desk does, in words for fingers; nothing is cut or broken in two."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from live_kit import ask, settle
from server_kit import Running
from web_kit import PHONE, Watched, accessibility, needs_browser, watched

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = needs_browser()

DESK: dict[str, Any] = {"viewport": {"width": 1280, "height": 800}}
INK = """() => {
    const strip = document.querySelector('.brain-strip');
    const { width, height } = strip;
    const copy = Object.assign(document.createElement('canvas'), { width, height });
    const pen = copy.getContext('2d', { willReadFrequently: true });
    pen.drawImage(strip, 0, 0);
    const { data } = pen.getImageData(0, 0, width, height);
    let all = 0;
    let edge = 0;
    for (let at = 0; at < data.length; at += 4) {
        if (data[at + 3] > 60) all += 1;
        if (data[at + 3] > 60 && (at / 4) % width === width - 1) edge += 1;
    }
    return [all, edge];
}"""


@pytest.fixture
def visit(browser: Browser, live: Running) -> Iterator[Watched]:
    with watched(browser, live.url, **PHONE) as visited:
        yield visited
        visited.check()


@pytest.fixture
def desk(browser: Browser, live: Running) -> Iterator[Watched]:
    with watched(browser, live.url, **DESK) as visited:
        yield visited
        visited.check()


def legend(page: Page) -> list[str]:
    scales = page.get_by_label("Scales of the map")
    scales.wait_for()
    return scales.locator("dd").all_inner_texts()


def test_brain_has_its_bars_and_the_same_legend(
    visit: Watched, desk: Watched, live: Running
) -> None:
    ask(live)
    live.await_idle()
    pages = [each.open("/#/brain") for each in (visit, desk)]
    phone, wide = (legend(page) for page in pages)
    assert phone == wide
    assert any("how evenly a layer uses its experts" in text for text in phone)
    strip = pages[0].get_by_label("How evenly each layer uses its experts")
    assert strip.is_visible()
    settle(lambda: pages[0].evaluate(INK)[0] > 200)
    assert pages[0].evaluate(INK)[1] == 0  # no figure is cut at the edge
    for page in pages:
        below = page.get_by_label("Scales of the map").bounding_box()
        above = page.locator(".brain-frame").bounding_box()
        assert below
        assert above
        assert above["y"] + above["height"] <= below["y"]
        assert accessibility(page) == []


@pytest.mark.parametrize("name", ["brain", "atlas"])
def test_words_are_for_the_hand_that_is_there(visit: Watched, desk: Watched, name: str) -> None:
    finger, mouse = visit.open(f"/#/{name}"), desk.open(f"/#/{name}")
    finger.get_by_text("Tap a").wait_for()
    said = finger.get_by_role("main").inner_text()
    for word in ("Point at", "click", "wheel", "arrow keys"):
        assert word not in said
    mouse.get_by_text("Point at a").wait_for()
    assert "Tap" not in mouse.get_by_role("main").inner_text()


@pytest.mark.parametrize(("name", "field"), [("atlas", "searchbox"), ("brio", "textbox")])
def test_what_a_field_asks_for_is_not_cut(visit: Watched, name: str, field: str) -> None:
    page = visit.open(f"/#/{name}")
    page.get_by_role(field).first.wait_for()
    room, words = page.evaluate(
        """() => {
            const field = document.querySelector('main input[placeholder]');
            const style = getComputedStyle(field);
            const pen = document.createElement('canvas').getContext('2d');
            pen.font = `${style.fontWeight} ${style.fontSize} ${style.fontFamily}`;
            const padding = parseFloat(style.paddingLeft) + parseFloat(style.paddingRight);
            const button = 20; // which clears the field, kept free by the browser
            const room = field.clientWidth - padding - button;
            return [room, pen.measureText(field.placeholder).width];
        }"""
    )
    assert 0 < words <= room


@pytest.mark.parametrize("kind", ["phone", "desk"])
def test_a_pill_stays_in_one_line(visit: Watched, desk: Watched, kind: str) -> None:
    page = (visit if kind == "phone" else desk).open("/#/model")
    pill = page.locator(".badge").first
    pill.wait_for()
    heights = page.locator(".badge").evaluate_all("all => all.map(each => each.offsetHeight)")
    assert len(heights) >= 2
    assert max(heights) < 30
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize(
    ("value", "text"), [(0.2, "1 s"), (3.2, "3 s"), (59.4, "59 s"), (83, "1 min 23 s")]
)
def test_time_left_is_told_in_whole_seconds(visit: Watched, value: float, text: str) -> None:
    page = visit.open()
    script = "async value => (await import('./static/lib/format.js')).remaining(value)"
    assert page.evaluate(script, value) == text

"""Brain: what its cells show is what the executor says, and each control does what it says."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from live_kit import EXPERTS, LAYERS, ask, frames, live_server, many_experts, settle
from server_kit import Running
from web_kit import Watched, needs_browser, watched

from colibri import LLM

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

pytestmark = needs_browser()

DESK: dict[str, Any] = {"viewport": {"width": 1440, "height": 900}, "color_scheme": "light"}


@pytest.fixture
def visit(browser: Browser, live: Running) -> Iterator[Watched]:
    with watched(browser, live.url, **DESK) as visited:
        yield visited
        visited.check()


@pytest.fixture
def brain(visit: Watched) -> Page:
    page = visit.open("/#/brain")
    page.get_by_text("128 experts in 4 layers").wait_for()
    return page


def cells(page: Page) -> np.ndarray:
    """The colour of each cell [lines, columns, rgb]."""
    width, values = page.evaluate(
        """() => {
            const cells = document.querySelector('.brain-cells');
            const { width, height } = cells;
            const copy = Object.assign(document.createElement('canvas'), { width, height });
            const pen = copy.getContext('2d', { willReadFrequently: true });
            pen.drawImage(cells, 0, 0);
            return [width, [...pen.getImageData(0, 0, width, height).data]];
        }"""
    )
    return np.array(values, np.int64).reshape(-1, width, 4)[..., :3]


def blue(page: Page) -> np.ndarray:
    """Of the embedded model [layers, experts], whose layers have two lines at this width."""
    found = cells(page)
    return (found[..., 2] - found[..., 0] > 12).reshape(4, 32)


def flashing(page: Page) -> np.ndarray:
    """Nearly ink, in the light theme [layers, experts]."""
    return (cells(page).max(axis=-1) < 60).reshape(4, 32)


def lit_by_layer(page: Page) -> list[int]:
    by_layer = cells(page).max(axis=-1).reshape(LAYERS, EXPERTS) < 60
    return by_layer.sum(axis=1).tolist()


def resident(running: Running) -> np.ndarray:
    experts = running.service.llm.experts
    return np.stack([experts.at_hand(n) for n in (1, 2, 3, 4)])


def test_colour_says_where_experts_lie(brain: Page, live: Running) -> None:
    ask(live, "SELECT name FROM birds", 30)
    live.await_idle()
    settle(lambda: bool((blue(brain) == resident(live)).all()))
    shown = brain.get_by_label("Experts by tier")
    there = int(resident(live).sum())
    settle(lambda: f"inmemory{there}" in re.sub(r"\s", "", shown.inner_text()))
    ask(live, "def mean(values):", 30)
    live.await_idle()
    settle(lambda: bool((blue(brain) == resident(live)).all()))


def test_the_legend_is_right_in_both_themes(brain: Page) -> None:
    """In the light theme what is used often is darker, not brighter."""
    brain.get_by_text("flash: just selected").wait_for()
    assert "expert 0" in brain.locator(".brain-axis").inner_text()
    assert brain.get_by_text("Bright:").count() == 0


def test_the_most_and_the_least_used_are_told_apart(brain: Page, live: Running) -> None:
    """However long the model has run: all of a logarithmic scale's upper end would look alike."""
    ask(live, tokens=60)
    live.await_idle()

    def apart() -> bool:
        dark = 255 - cells(brain).mean(axis=-1).reshape(4, 32)
        counts, _ = live.service.llm.usage.peek()
        heat = np.stack([counts.heat[n] for n in (1, 2, 3, 4)])
        there = resident(live)
        order = np.argsort(heat[there])
        shades = dark[there][order]
        return bool(shades[-5:].mean() - shades[:5].mean() > 40)

    settle(apart)


def test_pins_are_outlined_and_counted(brain: Page, live: Running) -> None:
    ask(live, tokens=30)
    live.await_idle()
    pinned = sum(len(live.service.llm.experts.held(n)) for n in (1, 2, 3, 4))
    assert pinned > 0
    brain.get_by_text(f"{pinned} pinned").wait_for()


def test_experts_that_fire_flash_and_fade(brain: Page, live: Running) -> None:
    settle(lambda: not flashing(brain).any())
    brain.evaluate(
        """() => {
            window.most = 0;
            const cells = document.querySelector('.brain-cells');
            const { width, height } = cells;
            const copy = Object.assign(document.createElement('canvas'), { width, height });
            const pen = copy.getContext('2d', { willReadFrequently: true });
            const look = () => {
                pen.drawImage(cells, 0, 0);
                const { data } = pen.getImageData(0, 0, width, height);
                let dark = 0;
                for (let i = 0; i < data.length; i += 4) {
                    dark += Math.max(data[i], data[i + 1], data[i + 2]) < 60;
                }
                window.most = Math.max(window.most, dark);
                requestAnimationFrame(look);
            };
            look();
        }"""
    )
    ask(live, tokens=40)
    settle(lambda: brain.evaluate("window.most") >= 4)
    settle(lambda: not flashing(brain).any())


def test_pause_and_step_through_a_turn(brain: Page, live: Running) -> None:
    ask(live, tokens=12)
    brain.get_by_text(re.compile(r"Live: turn \d+, \d+ steps")).wait_for()
    brain.wait_for_timeout(500)
    brain.get_by_role("button", name="Pause").click()
    slider = brain.get_by_label("Step of this turn")
    brain.get_by_text(re.compile(r"step 12 of 12: token 11, 16 experts")).wait_for()
    steps, _, _ = live.service.firings.since(0, 12)

    def shows(step: Any) -> None:
        expected = np.zeros((4, 32), np.bool_)
        for layer, ids in step.calls:
            expected[layer - 1, np.frombuffer(ids, np.int32)] = True
        settle(lambda: bool((flashing(brain) == expected).all()), 5)

    shows(steps[11])
    brain.get_by_role("button", name="Step back").click()
    brain.get_by_text("step 11 of 12").wait_for()
    shows(steps[10])
    brain.get_by_role("button", name="Step forward").click()
    shows(steps[11])
    assert brain.get_by_role("button", name="Step forward").is_disabled()
    slider.focus()
    brain.keyboard.press("Home")
    brain.get_by_text(re.compile(r"step 1 of 12: reads \d+ tokens?")).wait_for()
    shows(steps[0])
    brain.locator(".brain-canvas").focus()
    brain.keyboard.press(".")
    brain.get_by_text("step 2 of 12").wait_for()
    brain.keyboard.press(",")
    brain.get_by_text("step 1 of 12").wait_for()
    # What happens meanwhile is kept, and shown nowhere.
    ask(live, tokens=5)
    brain.wait_for_timeout(500)
    shows(steps[0])
    brain.get_by_role("button", name="Live").click()
    brain.get_by_text(re.compile(r"Live: turn")).wait_for()
    settle(lambda: not flashing(brain).any())


def test_paused_before_anything_happened(brain: Page, live: Running) -> None:
    brain.get_by_role("button", name="Pause").click()
    back = brain.get_by_role("button", name="Step back")
    forward = brain.get_by_role("button", name="Step forward")
    brain.get_by_text("Paused. Nothing has happened yet.").wait_for()
    assert back.is_disabled()
    assert forward.is_disabled()
    ask(live, tokens=5)
    brain.get_by_text("Paused. 5 steps since then.").wait_for()
    forward.click()
    brain.get_by_text("step 1 of 5").wait_for()


def test_whoever_wants_no_motion_sees_no_flicker(browser: Browser, live: Running) -> None:
    with watched(browser, live.url, **DESK, reduced_motion="reduce") as visited:
        page = visited.open("/#/brain")
        page.get_by_text("128 experts in 4 layers").wait_for()
        ask(live, tokens=30)
        before = cells(page)
        # They fade slowly, and none was ever as dark as ink.
        page.get_by_text(re.compile(r"Live: turn \d+, 30 steps")).wait_for()
        assert not flashing(page).any()
        settle(lambda: bool((cells(page) != before).any()))
        visited.check()


def test_keyboard_moves_and_speaks(brain: Page, live: Running) -> None:
    ask(live, tokens=5)
    brain.locator(".brain-canvas").focus()
    spoken = brain.locator("#brain-spoken")
    heading = brain.get_by_label("Expert", exact=True).get_by_role("heading", level=2)
    for key, name in (
        ("ArrowRight", "Layer 1, expert 0"),
        ("ArrowRight", "Layer 1, expert 1"),
        ("ArrowDown", "Layer 1, expert 17"),
        ("ArrowLeft", "Layer 1, expert 16"),
        ("ArrowLeft", "Layer 1, expert 15"),
        ("ArrowRight", "Layer 1, expert 16"),
        ("ArrowDown", "Layer 2, expert 0"),
        ("End", "Layer 2, expert 31"),
        ("ArrowRight", "Layer 2, expert 31"),
        ("PageDown", "Layer 4, expert 31"),
        ("ArrowLeft", "Layer 4, expert 30"),
        ("ArrowUp", "Layer 4, expert 14"),
        ("ArrowUp", "Layer 3, expert 30"),
        ("Home", "Layer 3, expert 0"),
        ("ArrowLeft", "Layer 3, expert 0"),
    ):
        brain.keyboard.press(key)
        heading.get_by_text(name, exact=True).wait_for()
        assert spoken.inner_text().startswith(f"{name}: ")
    assert re.search(r"(in memory|on disk).*heat .*last used .*most for", spoken.inner_text())
    brain.keyboard.press("Escape")
    heading.get_by_text("An expert").wait_for()


def test_pointing_and_clicking(brain: Page, live: Running) -> None:
    ask(live, tokens=5)
    canvas = brain.locator(".brain-canvas")
    box = canvas.bounding_box()
    assert box
    cell = box["width"] / 16, box["height"] / 8
    heading = brain.get_by_label("Expert", exact=True).get_by_role("heading", level=2)
    brain.mouse.move(box["x"] + 5.5 * cell[0], box["y"] + 2.5 * cell[1])
    heading.get_by_text("Layer 2, expert 5", exact=True).wait_for()
    brain.mouse.down()
    brain.mouse.up()
    brain.mouse.move(box["x"] + 9.5 * cell[0], box["y"] + 4.5 * cell[1])
    heading.get_by_text("Layer 3, expert 9", exact=True).wait_for()
    brain.mouse.move(5, 5)
    heading.get_by_text("Layer 2, expert 5", exact=True).wait_for()


def test_cells_are_large_enough_for_a_finger(browser: Browser, live: Running) -> None:
    size: Any = {"width": 390, "height": 844}
    with watched(browser, live.url, viewport=size, is_mobile=True, has_touch=True) as visited:
        page = visited.open("/#/brain")
        page.get_by_text("128 experts in 4 layers").wait_for()
        canvas = page.locator(".brain-canvas")
        settle(lambda: (canvas.bounding_box() or {"height": 0})["height"] > 200)
        box = canvas.bounding_box()
        assert box
        cell = box["width"] / 8, box["height"] / 16
        assert min(cell) >= 24
        page.touchscreen.tap(box["x"] + 1.5 * cell[0], box["y"] + 5.5 * cell[1])
        heading = page.get_by_role("heading", name="Layer 2, expert 9")
        heading.wait_for()
        assert heading.evaluate("part => part.getBoundingClientRect().top < innerHeight - 60")
        visited.check()


def test_an_expert_leads_to_the_atlas_and_back(brain: Page) -> None:
    brain.locator(".brain-canvas").focus()
    brain.keyboard.press("ArrowRight")
    brain.get_by_role("link", name="Show it in the atlas").click()
    brain.get_by_role("heading", name="Layer 1, expert 0").wait_for()
    assert brain.url.endswith("#/atlas/1.0")
    brain.get_by_role("link", name="Show it in Brain").click()
    brain.get_by_role("heading", name="Brain").wait_for()
    brain.get_by_role("heading", name="Layer 1, expert 0").wait_for()


def test_a_stream_that_breaks_is_taken_up_again(browser: Browser) -> None:
    with live_server() as server, watched(browser, server.url, **DESK) as visited:
        visited.lenient = True
        page = visited.open("/#/brain")
        page.get_by_text("128 experts in 4 layers").wait_for()
        ask(server, tokens=6)
        page.get_by_text(re.compile(r"Live: turn \d+, 6 steps")).wait_for()
        client = visited.context.new_cdp_session(page)
        offline = {"offline": True, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
        client.send("Network.enable")
        client.send("Network.emulateNetworkConditions", offline)
        page.wait_for_timeout(300)
        client.send("Network.emulateNetworkConditions", offline | {"offline": False})
        ask(server, tokens=7)
        page.get_by_text(re.compile(r"Live: turn \d+, 7 steps")).wait_for()
        visited.check()


def test_twenty_thousand_experts(browser: Browser, llm: LLM, record_property: Any) -> None:
    """19,968 cells, 624 of which fire in each of 20 steps a second. The figure in docs/web.md is of
    this test alone on a machine; it fails because of what is shown, not of its speed."""
    with (
        many_experts(llm) as server,
        watched(browser, server.url, **DESK) as visited,
    ):
        page = visited.open("/#/brain")
        page.get_by_text("19,968 experts in 78 layers").wait_for()
        page.get_by_text(re.compile(r"Live: turn 1, \d\d+ steps")).wait_for()
        count, longest = frames(page, 3)
        record_property("frames_per_second", count / 3)
        print(f"\n{count / 3:.1f} frames a second, longest between two {longest * 1e3:.0f} ms")
        assert count > 0
        page.get_by_role("button", name="Pause").click()
        page.locator(".brain-canvas").focus()
        for key in ("ArrowRight", "ArrowDown", "End"):  # a layer has two lines at this width
            page.keyboard.press(key)
        page.get_by_role("heading", name=f"Layer 0, expert {EXPERTS - 1}").wait_for()
        for _ in range(2 * LAYERS // 8 + 1):
            page.keyboard.press("PageDown")
        page.get_by_role("heading", name=f"Layer {LAYERS - 1}, expert {EXPERTS - 1}").wait_for()
        there = sum(int(flags.sum()) for flags in server.service.llm.experts.there.values())  # type: ignore[attr-defined]
        page.get_by_label("Experts by tier").get_by_text(f"{there:,}").wait_for()
        # Of the step that it stands at: eight of each layer.
        settle(lambda: lit_by_layer(page) == [8] * LAYERS)
        visited.check()

"""Profile and Model: the figures on the page are the server's."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

import httpx2
import pytest
from live_kit import ask, live_server, settle
from server_kit import Running
from web_kit import Watched, needs_browser, watched

from colibri.planner.forecast import Rates
from colibri.server.colibri import overview

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = needs_browser()


@pytest.fixture(scope="module")
def served() -> Iterator[Running]:
    with live_server() as running:
        for tokens in (5, 30, 12):
            ask(running, tokens=tokens)
        yield running


@pytest.fixture
def visit(browser: Browser, served: Running) -> Iterator[Watched]:
    with watched(browser, served.url, viewport={"width": 1440, "height": 900}) as visited:
        yield visited
        visited.check()


def test_turns(visit: Watched, served: Running) -> None:
    page = visit.open("/#/profile")
    rows = page.get_by_label("Turns").get_by_role("button")
    rows.first.wait_for()
    told = httpx2.get(f"{served.url}/v1/colibri/profile").json()["turns"]
    assert rows.count() == len(told)
    for row, turn in zip(rows.all(), reversed(told), strict=True):
        written = turn["decode"]["rows"]
        assert f"{written} written" in row.inner_text()
        widths = row.locator(".stacked i").evaluate_all(
            "(bars, whole) => bars.map(bar => parseFloat(bar.style.width))"
        )
        longest = max(t["seconds"] for t in told)
        assert sum(widths) == pytest.approx(100 * turn["seconds"] / longest, abs=1)
    page.get_by_label("as shares").check()
    widths = rows.last.locator(".stacked i").evaluate_all(
        "bars => bars.map(bar => parseFloat(bar.style.width))"
    )
    assert sum(widths) == pytest.approx(100, abs=1)


def test_another_turn_is_chosen(visit: Watched, served: Running) -> None:
    page = visit.open("/#/profile")
    rows = page.get_by_label("Turns").get_by_role("button")
    rows.last.click()
    page.get_by_role("heading", name=re.compile(r"^Turn 1$")).wait_for()
    assert rows.last.get_attribute("aria-pressed") == "true"
    layers = page.get_by_label("By layer").get_by_role("listitem")
    settle(lambda: layers.count() == 6)
    assert [row.inner_text().split()[0] for row in layers.all()] == [
        "outside",
        "0",
        "1",
        "2",
        "3",
        "4",
    ]
    page.get_by_role("combobox").select_option("prefill")
    layers.first.wait_for()
    assert "hits" in layers.last.inner_text()
    page.get_by_role("img", name=re.compile("A step of .* phases")).wait_for()


def test_a_turn_that_only_read_has_no_figures_of_decode(visit: Watched, served: Running) -> None:
    body = {"state": "A fox.", "questions": [{"question": "Is it?", "options": ["yes", "no"]}]}
    httpx2.post(f"{served.url}/v1/score", json=body, timeout=60).raise_for_status()
    page = visit.open("/#/profile")
    figures = page.locator(".figures")
    figures.get_by_text("decode", exact=True).wait_for()
    assert re.search(r"decode\s+\u2013\s+prefill\s+[\d.]+ tok/s", figures.inner_text())
    layers = page.get_by_label("By layer")
    layers.get_by_role("listitem").nth(5).wait_for()
    assert page.get_by_role("combobox").input_value() == "prefill"
    assert "NaN" not in page.get_by_role("main").inner_text()


def test_the_last_minutes_are_drawn_second_by_second(visit: Watched, served: Running) -> None:
    page = visit.open("/#/profile")
    recent = page.get_by_label("The last minutes", exact=True)
    settle(lambda: page.evaluate(COUNT) > 2)
    ask(served, tokens=60)
    legend = recent.locator(".u-legend")
    canvas = recent.locator(".u-over")

    def told_at_the_pointer() -> bool:
        canvas.hover(position={"x": canvas.bounding_box()["width"] * 0.9, "y": 40})  # type: ignore[index]
        return bool(re.search(r"decode:?\s*[1-9][\d.,]* tok/s", legend.inner_text()))

    settle(told_at_the_pointer)


COUNT = "async () => (await import('./static/lib/live.js')).history.value.length"


def test_lost_seconds_are_a_gap_and_no_hit_rate_is_no_nought(visit: Watched) -> None:
    page = visit.open("/#/profile")
    rows = page.evaluate(
        """async () => {
            const { dataOf } = await import('./static/pages/profile/recent.js');
            const at = (at, speed, hits, misses) =>
                ({ at, decode_tokens_per_second: speed, bytes_read_per_second: 8, hits, misses });
            return dataOf([at(1000, 5, 3, 1), at(2000, 0, 0, 0), at(9000, 7, 1, 1)]);
        }"""
    )
    seconds, speed, read, hits = rows
    assert seconds == [-8, -7, pytest.approx(-0.001), 0]
    assert speed == [5, 0, None, 7]
    assert read == [8, 8, None, 8]
    assert hits == [0.75, None, None, 0.5]


def test_a_new_turn_appears_by_itself(visit: Watched, served: Running) -> None:
    page = visit.open("/#/profile")
    rows = page.get_by_label("Turns").get_by_role("button")
    rows.first.wait_for()
    before = rows.count()
    ask(served, tokens=3)
    settle(lambda: rows.count() == before + 1)


def test_plan_and_outcome(visit: Watched, served: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overview, "_measured", lambda _llm: Rates(1e10, 1e9, 5e9))
    page = visit.open("/#/model")
    table = page.get_by_label("The plan and what happened")
    table.get_by_role("row", name=re.compile("^speed")).wait_for()
    served.service.rates = None
    assert "\u2013" in table.get_by_role("row", name=re.compile("^speed")).inner_text()
    page.get_by_role("button", name="Measure this machine").click()
    page.get_by_text("memory 10.0 GB/s").wait_for()
    planned = table.get_by_role("row", name=re.compile("^speed")).get_by_role("cell").first
    assert planned.inner_text().endswith("tok/s")
    items = page.get_by_label("Memory").get_by_role("row")
    told = httpx2.get(f"{served.url}/v1/colibri/plan").json()
    assert items.count() == len(told["items"])
    for name in ("Machine", "Settings", "Usage and pins", "Experts by tier"):
        assert page.get_by_label(name, exact=True).inner_text()
    assert "--policy" in page.get_by_label("Settings", exact=True).inner_text()
    # Not the wish "auto", but what it came to.
    policy = served.service.llm.plan.policy
    assert told["policy"] == policy != "auto"
    assert policy in page.get_by_label("Experts by tier", exact=True).inner_text()


def test_only_what_is_worse_than_planned_is_coloured(visit: Watched, served: Running) -> None:
    told = httpx2.get(f"{served.url}/v1/colibri/model").json()
    made = {  # name: planned, measured, deviation, worse
        "loaded": (100e6, 99.9e6, -0.001, False),
        "peak": (100e6, 80e6, -0.2, False),
        "hit rate": (0.5, 0.4, -0.2, True),
        "speed": (100.0, 108.0, 0.08, False),
    }
    for row in told["outcome"]:
        if row["name"] in made:
            names = ("planned", "measured", "deviation", "worse")
            row.update(zip(names, made[row["name"]], strict=True))
    page = visit.context.new_page()
    page.route("**/v1/colibri/model", lambda route: route.fulfill(json=told))
    page.goto(f"{visit.url}/#/model")
    table = page.get_by_label("The plan and what happened")
    table.get_by_text("as planned").wait_for()
    rows = {row.inner_text().split()[0]: row for row in table.locator("tbody tr").all()}
    assert rows["loaded"].inner_text().endswith("as planned")
    assert rows["peak"].inner_text().endswith("\u221220 %")
    assert rows["speed"].inner_text().endswith("+8 %")
    assert table.locator(".warn").all_inner_texts() == ["\u221220 %"]
    assert rows["hit"].locator(".warn").count() == 1


def test_units_stay_with_their_numbers_on_a_phone(browser: Browser, served: Running) -> None:
    with watched(browser, served.url, viewport={"width": 390, "height": 844}) as visited:
        page = visited.open("/#/profile")
        page.get_by_label("Turns").get_by_role("button").last.click()
        cells = page.locator(".table .num")
        cells.first.wait_for()
        heights = cells.evaluate_all("all => all.map(cell => cell.clientHeight)")
        assert max(heights) < 34
        visited.check()


def test_requests_in_flight(visit: Watched, served: Running) -> None:
    page = visit.open("/#/model")
    flight = page.get_by_label("Requests")
    flight.get_by_text("0 running").wait_for()
    thread = threading.Thread(target=ask, args=(served,), kwargs={"tokens": 900})
    thread.start()
    flight.get_by_text("1 running").wait_for()
    thread.join()
    flight.get_by_text("0 running").wait_for()


def test_a_long_path_does_not_widen_the_page(browser: Browser, served: Running) -> None:
    told = httpx2.get(f"{served.url}/v1/colibri/model").json()
    told["usage"]["path"] = "/" + "a_long_name_without_a_break" * 6
    with watched(browser, served.url, viewport={"width": 390, "height": 844}) as visited:
        page = visited.context.new_page()
        page.route("**/v1/colibri/model", lambda route: route.fulfill(json=told))
        page.goto(f"{served.url}/#/model")
        page.get_by_text(told["usage"]["path"]).wait_for()
        main = page.get_by_role("main")
        assert main.evaluate("part => part.scrollWidth - part.clientWidth") <= 0
        visited.check()

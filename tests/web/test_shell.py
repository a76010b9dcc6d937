"""The frame of the dashboard: navigation, theme, keyboard, the key; pages on a phone."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest
from live_kit import ask
from server_kit import Running, serving
from web_kit import PHONE, Watched, accessibility, dressed, needs_browser, too_small, watched

from colibri import LLM

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = needs_browser()

BUDGET = 200_000  # bytes, compressed: what the first page may cost


def test_each_page_opens_from_the_navigation(page: Page) -> None:
    links = page.get_by_role("navigation", name="Pages").get_by_role("link")
    for link in links.all():
        name = link.inner_text()
        link.click()
        page.wait_for_function("name => document.title.startsWith(name)", arg=name)
        assert link.get_attribute("aria-current") == "page"
        page.get_by_role("main").locator("h1").first.wait_for(state="attached")


PAGES = ["Chat", "Brio", "Brain", "Atlas", "Profile", "Model"]
DRAWN = {"Brain": ".brain-canvas", "Atlas": ".atlas-canvas"}


def tour(first: int = 0) -> list[str]:
    """A walk from each page to each other, once."""
    here = PAGES[first]
    if first == len(PAGES) - 1:
        return [here]
    visits = [name for other in PAGES[first + 2 :] for name in (other, here)]
    return [here, *visits, *tour(first + 1), here]


def test_every_page_is_left_for_every_other(browser: Browser, live: Running) -> None:
    """What a page had running ends with it: nothing of it fails afterwards."""
    steps = tour()
    assert len(set(itertools.pairwise(steps))) == len(PAGES) * (len(PAGES) - 1)
    with watched(browser, live.url) as visited:
        page = visited.open()
        links = page.get_by_role("navigation", name="Pages")
        for name in steps:
            links.get_by_role("link", name=name).click()
            page.wait_for_function("name => document.title.startsWith(name)", arg=name)
            page.get_by_role("main").locator("h1").first.wait_for(state="attached")
            if name in DRAWN:
                page.locator(DRAWN[name]).wait_for()
                page.wait_for_timeout(60)
        page.wait_for_timeout(100)
        visited.check()


@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_a_phone_and_its_fingers(browser: Browser, live: Running, name: str) -> None:
    with watched(browser, live.url, **PHONE) as visited:
        page = visited.open(f"/#/{name.lower()}")
        page.get_by_role("main").locator("h1").first.wait_for(state="attached")
        page.wait_for_timeout(700)
        over = page.evaluate(
            """() => [document.documentElement, document.querySelector('main')]
                .map(part => part.scrollWidth - part.clientWidth)"""
        )
        assert max(over) <= 0
        # The page scrolls within its frame; the frame itself stays where it is.
        frame = "() => [document.documentElement.scrollHeight, innerHeight]"
        assert len(set(page.evaluate(frame))) == 1
        assert too_small(page) == []


def test_an_unknown_page_is_the_first_one(visit: Watched) -> None:
    page = visit.open("/#/nothing/%E0%A4%A")
    page.wait_for_function("() => document.title.startsWith('Chat')")
    page.wait_for_function("() => location.hash === '#/chat'")
    page.goto(f"{visit.url}/#/brain/1.2/x")
    page.wait_for_function("() => location.hash === '#/brain/1.2'")


def test_the_server_is_told_of(page: Page) -> None:
    pulse = page.get_by_label("Server")
    pulse.get_by_text("demo").wait_for()
    pulse.get_by_text("decode").wait_for()


def test_keyboard_alone_is_enough(visit: Watched) -> None:
    page = visit.open("/#/brio")
    page.get_by_role("heading", level=1, name="Brio").wait_for()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    assert page.url.endswith("/#/brio")
    page.get_by_role("link", name="Chat").focus()
    page.keyboard.press("Enter")
    page.get_by_text("Talk with demo").wait_for()
    page.get_by_label("Message", exact=True).focus()
    page.keyboard.type("Tell me a story.")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.get_by_role("article", name="Model").get_by_text("first token").wait_for()


def test_theme_by_system_and_by_choice(visit: Watched) -> None:
    page = visit.open()
    ground = "getComputedStyle(document.body).backgroundColor"
    dressed(page, "light")
    light = page.evaluate(ground)
    dressed(page, "dark")
    dark = page.evaluate(ground)
    assert light != dark
    page.get_by_role("button", name="Theme").click()
    assert page.evaluate(ground) == light
    page.reload()
    assert page.evaluate(ground) == light
    page.get_by_role("button", name="Theme").click()
    dressed(page, "light")
    assert page.evaluate(ground) == dark
    page.get_by_role("button", name="Theme").click()
    assert page.evaluate(ground) == light


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("kind", ["desk", "phone"])
def test_accessible(browser: Browser, server: Running, scheme: Any, kind: str) -> None:
    options: dict[str, Any] = PHONE if kind == "phone" else {}
    with watched(browser, server.url, color_scheme=scheme, **options) as visited:
        page = visited.open()
        page.get_by_label("Server").get_by_text("demo").wait_for(state="attached")
        assert accessibility(page) == []
        width = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert width <= 0
        visited.check()


def test_the_first_page_is_small(visit: Watched) -> None:
    received = [0]
    page = visit.context.new_page()
    client = visit.context.new_cdp_session(page)
    client.send("Network.enable")
    client.on(
        "Network.loadingFinished", lambda event: received.append(int(event["encodedDataLength"]))
    )
    page.goto(visit.url)
    page.get_by_label("Server").get_by_text("decode").wait_for()
    page.wait_for_timeout(200)
    assert len(received) > 10
    assert sum(received) < BUDGET


def test_a_key_is_asked_for_and_kept_in_the_tab(browser: Browser, llm: LLM) -> None:
    with (
        serving(llm, page=True, api_key="right") as server,
        watched(browser, server.url) as visited,
    ):
        visited.lenient = True
        page = visited.open()
        field = page.get_by_label("Key", exact=True)
        field.fill("wrong")
        page.get_by_role("button", name="Connect").click()
        page.get_by_text("That key is not correct.").wait_for()
        field.fill("right")
        page.get_by_role("button", name="Connect").click()
        page.get_by_label("Server").get_by_text("demo").wait_for()
        assert "right" not in page.url
        page.evaluate("sessionStorage.removeItem('colibri.key')")
        page.reload()
        page.get_by_role("dialog").wait_for()
        page.keyboard.press("Escape")
        page.get_by_role("dialog").wait_for(state="hidden")
        page.get_by_label("Message", exact=True).fill("Hello")
        page.get_by_label("Message", exact=True).press("Enter")
        page.get_by_text("This server requires a key: enter it, then try again.").wait_for()
        field.fill("right")
        page.get_by_role("button", name="Connect").click()
        page.get_by_label("Server").get_by_text("demo").wait_for()
        page.reload()
        page.get_by_label("Server").get_by_text("demo").wait_for()
        assert page.get_by_role("dialog").count() == 0
        assert page.evaluate("Object.values(localStorage).join().includes('right')") is False
        page.close()
        visited.check()


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1440, "light")])
@pytest.mark.parametrize("name", ["brain", "atlas", "profile", "model"])
def test_watching_is_accessible(
    browser: Browser, live: Running, name: str, width: int, scheme: Any
) -> None:
    ask(live, tokens=3)  # Profile has headings once there is a turn
    size = {"width": width, "height": 844}
    with watched(browser, live.url, viewport=size, color_scheme=scheme) as visited:
        page = visited.open(f"/#/{name}")
        page.get_by_role("heading", level=2).first.wait_for()
        if name == "brain":
            page.locator(".brain-canvas").focus()
            page.keyboard.press("ArrowRight")
        assert accessibility(page) == []
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        visited.check()

"""Models that hold no conversation: the page says why, and offers nothing that cannot help."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from chatpage_kit import answers, await_answers, say
from server_kit import Running, serving
from web_kit import PHONE, Watched, accessibility, needs_browser, watched

from colibri import LLM
from colibri.llm import embedded_model
from golden import tiny

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = needs_browser()

IDS = 'coli run --model PATH --ids "1 2 3"'


@pytest.fixture(scope="module")
def deaf() -> Iterator[Running]:
    """The server of a model without a tokenizer."""
    with LLM(tiny("olmoe"), ram="2GB") as llm, serving(llm, page=True) as running:
        yield running


@pytest.fixture
def visit(browser: Browser, deaf: Running) -> Iterator[Watched]:
    with watched(browser, deaf.url, **PHONE) as visited:
        visited.lenient = True  # browsers say of a 400 and a 404 that there was one
        yield visited
        visited.check()


def came(page: Page) -> Page:
    page.get_by_text("has no tokenizer (tokenizer.json)").wait_for()
    return page


def test_chat_says_that_text_can_be_neither_read_nor_written(visit: Watched) -> None:
    page = came(visit.open())
    said = page.locator(".notice").inner_text()
    assert "text can be neither read nor written" in said
    assert IDS in said
    assert page.get_by_label("Message", exact=True).count() == 0
    assert page.get_by_role("list", name="Example prompts").count() == 0
    assert page.get_by_text("Talk with").count() == 0
    assert accessibility(page) == []


def test_what_failed_before_offers_nothing_that_fails_again(visit: Watched) -> None:
    page = visit.context.new_page()
    # As a page that does not know yet which model is there.
    page.route("**/v1/models", lambda route: route.fulfill(json={"data": []}))
    page.goto(visit.url)
    say(page, "Hello")
    await_answers(page)
    assert "has no tokenizer.json" in answers(page).inner_text()
    assert page.get_by_role("button", name="Try again").is_enabled()
    page.unroute("**/v1/models")
    page.reload()
    came(page)
    answers(page).get_by_text("has no tokenizer.json").wait_for()
    assert page.get_by_role("button", name="Try again").count() == 0
    assert page.get_by_role("button", name="Answer again").is_disabled()
    page.get_by_role("button", name="Edit").click()
    assert page.get_by_role("button", name="Send").is_disabled()


def test_brio_says_it_too_and_asks_nothing(visit: Watched) -> None:
    page = came(visit.open("/#/brio"))
    page.get_by_label("Text of the document").fill("The sky is blue.")
    page.get_by_label("Question", exact=True).fill("Is it red?")
    page.get_by_text("This model does not read text.").wait_for()
    said, below = page.locator(".notice").bounding_box(), page.locator(".document").bounding_box()
    assert said
    assert below
    assert said["y"] + said["height"] + 8 <= below["y"]
    assert page.get_by_role("button", name="Ask", exact=True).first.is_disabled()
    assert accessibility(page) == []


def test_without_a_template_the_chat_says_that_and_brio_asks(
    browser: Browser, tmp_path: Path
) -> None:
    folder = shutil.copytree(tiny("olmoe"), tmp_path / "base")
    shutil.copy(embedded_model() / "tokenizer.json", folder)
    with (
        LLM(folder, ram="2GB") as llm,
        serving(llm, page=True) as running,
        watched(browser, running.url) as visited,
    ):
        page = visited.open()
        page.get_by_text("has no chat template (chat_template.jinja)").wait_for()
        assert 'coli run --model PATH "text"' in page.locator(".notice").inner_text()
        assert page.get_by_label("Message", exact=True).count() == 0
        page.goto(f"{running.url}/#/brio")
        page.get_by_label("Text of the document").fill("The sky is blue.")
        page.get_by_label("Question", exact=True).fill("Is it red?")
        assert page.get_by_role("button", name="Ask", exact=True).first.is_enabled()
        assert "of its own" not in page.locator(".page-head").inner_text()
        visited.check()

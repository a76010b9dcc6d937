"""A conversation that is answered in one tab is not touched by another, which says so."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from chatpage_kit import FIRST, answers, await_answers, say, scripted
from web_kit import accessibility, needs_browser, typed

from colibri import LLM

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = needs_browser()

THERE = "Being written in another tab"


def beside(page: Page) -> Page:
    """Another tab, at the same place."""
    other = page.context.new_page()
    other.set_default_timeout(20_000)
    other.goto(page.url)
    return other


def head(page: Page, name: str) -> None:
    page.get_by_role("link", name=name).wait_for()


def rename(page: Page, title: str) -> None:
    page.locator(".heads li").first.hover()
    page.get_by_role("button", name=f"Rename {FIRST}").click()
    page.get_by_label("Title").fill(title)
    page.keyboard.press("Enter")


def test_it_is_marked_and_takes_no_message(browser: Browser, llm: LLM) -> None:
    with scripted(browser, llm, typed(llm, "word " * 60 + "end", pace=0.1)) as (first, model):
        say(first, FIRST)
        first.get_by_text("word word").wait_for()
        second = beside(first)
        head(second, f"{FIRST} being answered in another tab")
        head(first, f"{FIRST} being answered")
        second.get_by_text(THERE).wait_for()
        assert accessibility(second) == []
        assert second.get_by_text("Stopped", exact=True).count() == 0
        say(second, "And then?")
        assert second.get_by_label("Message", exact=True).input_value() == "And then?"
        second.get_by_text(THERE).wait_for(state="detached")
        second.get_by_text("word end").wait_for()
        assert len(model.submitted) == 1
        second.get_by_label("Message", exact=True).press("Enter")
        await_answers(second, 2)
        await_answers(first, 2)


def test_it_is_stopped_from_another_tab(browser: Browser, llm: LLM) -> None:
    with scripted(browser, llm, typed(llm, "word " * 400, pace=0.1)) as (first, model):
        say(first, FIRST)
        first.get_by_text("word word").wait_for()
        second = beside(first)
        second.get_by_text(THERE).wait_for()
        second.get_by_role("button", name="Stop").click()
        for page in (first, second):
            page.get_by_text("Stopped", exact=True).wait_for()
        first.wait_for_timeout(300)
        assert model.submitted[0].cancelled


@pytest.mark.parametrize("deaf", [False, True], ids=["", "tabs do not hear each other"])
def test_what_either_tab_does_stays(browser: Browser, llm: LLM, deaf: bool) -> None:
    """A title given beside an answer that goes on."""
    with scripted(browser, llm, typed(llm, "word " * 900, pace=0.1)) as (first, _):
        if deaf:
            first.context.add_init_script("delete globalThis.BroadcastChannel;")
            first.reload()
        say(first, FIRST)
        first.get_by_text("word word").wait_for()
        first.wait_for_timeout(2_500)  # it was kept once on the way
        second = beside(first)
        second.get_by_text("word word").wait_for()
        rename(second, "Foxes")
        second.get_by_role("heading", level=1, name="Foxes").wait_for()
        second.wait_for_timeout(500)  # it is kept
        first.get_by_role("button", name="Stop").click()
        await_answers(first)
        first.get_by_role("heading", level=1, name="Foxes").wait_for()
        written = answers(first).locator(".prose").inner_text()
        for page in (first, second):
            page.reload()
            page.get_by_role("heading", level=1, name="Foxes").wait_for()
            assert answers(page).locator(".prose").inner_text() == written


def test_branches_of_two_tabs_are_both_kept(browser: Browser, llm: LLM) -> None:
    with scripted(browser, llm, typed(llm, "An answer.")) as (first, _):
        first.context.add_init_script("delete globalThis.BroadcastChannel;")
        first.reload()
        say(first, FIRST)
        await_answers(first)
        second = beside(first)
        await_answers(second)
        for page in (first, second):
            page.get_by_role("button", name="Answer again").click()
            page.get_by_text(re.compile("2 / 2|3 / 3")).wait_for()
            await_answers(page)
        second.get_by_text("3 / 3").wait_for()
        first.reload()
        first.get_by_text("3 / 3").wait_for()


def test_a_tab_that_crashed_answers_nothing(browser: Browser, llm: LLM) -> None:
    with scripted(browser, llm, typed(llm, "An answer.")) as (page, _):
        say(page, FIRST)
        await_answers(page)
        page.evaluate(
            """() => new BroadcastChannel('colibri.chat')
                .postMessage({id: location.hash.split('/')[2], answering: true})"""
        )
        page.get_by_text(THERE).wait_for()
        page.get_by_text(THERE).wait_for(state="detached")

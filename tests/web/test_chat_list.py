"""The list of conversations: examples to begin with, search, other titles."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chatpage_kit import await_answers, say, scripted
from web_kit import Watched, accessibility, needs_browser, typed

from colibri import LLM, SamplingParams

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = needs_browser()


def titles(page: Page) -> list[str]:
    return page.locator(".head-title").all_inner_texts()


def test_an_empty_chat_offers_prompts_to_try(page: Page) -> None:
    examples = page.get_by_role("list", name="Example prompts").get_by_role("button")
    text = examples.first.inner_text()
    examples.first.click()
    message = page.get_by_label("Message", exact=True)
    assert message.input_value() == text
    page.keyboard.press("Enter")
    await_answers(page)
    assert page.get_by_role("list", name="Example prompts").count() == 0


def offered(page: Page) -> list[str]:
    examples = page.get_by_role("list", name="Example prompts")
    examples.wait_for()
    return examples.get_by_role("button").all_inner_texts()


def test_what_the_embedded_model_is_offered_it_answers(page: Page, llm: LLM) -> None:
    right = {"fox": "Once there was a fox", "France": "Paris", "sky": "blue light", "add": "a + b"}
    greedy = SamplingParams(temperature=0.0, max_tokens=100)
    texts = offered(page)
    assert len(texts) == len(right)
    for text, words in zip(texts, right.values(), strict=True):
        answer = llm.chat([{"role": "user", "content": text}], greedy)
        assert words in answer.text
        assert answer.finish_reason == "stop"


def test_another_model_is_offered_what_any_may_be_asked(browser: Browser, thinker: LLM) -> None:
    with scripted(browser, thinker, typed(thinker, "Yes.")) as (page, _):
        assert "What is 17 times 24? Show each step." in offered(page)


def test_search_finds_titles_and_messages_and_says_where_there_is_nothing(
    browser: Browser, llm: LLM
) -> None:
    with scripted(browser, llm, typed(llm, "A vixen.")) as (page, _):
        for text in ("About a fox", "About an owl"):
            page.get_by_role("link", name="New conversation").click()
            page.get_by_text("Talk with").wait_for()
            say(page, text)
            await_answers(page)
        search = page.get_by_label("Search conversations")
        search.fill("OWL")
        page.wait_for_function("() => document.querySelectorAll('.head-title').length === 1")
        assert titles(page) == ["About an owl"]
        search.fill("vixen")
        page.wait_for_function("() => document.querySelectorAll('.head-title').length === 2")
        search.fill("badger")
        page.get_by_text("No conversation contains \u201cbadger\u201d.").wait_for()
        assert accessibility(page) == []
        search.fill("")
        page.wait_for_function("() => document.querySelectorAll('.head-title').length === 2")


def test_another_title_stays_and_reaches_other_tabs(visit: Watched) -> None:
    page, other = visit.open(), visit.open()
    say(page, "First words")
    await_answers(page)
    page.locator(".heads li").first.hover()
    page.get_by_role("button", name="Rename First words").click()
    title = page.get_by_label("Title")
    assert title.input_value() == "First words"
    title.fill("   ")
    assert page.get_by_role("button", name="Rename", exact=True).is_disabled()
    title.fill("Foxes & owls")
    page.keyboard.press("Enter")
    page.get_by_role("heading", level=1, name="Foxes & owls").wait_for()
    other.get_by_text("Foxes & owls").wait_for()
    page.reload()
    page.get_by_role("heading", level=1, name="Foxes & owls").wait_for()


def test_the_look_of_a_page_does_not_depend_on_those_visited_before(visit: Watched) -> None:
    applied = """() => [...document.querySelectorAll('link[rel=stylesheet]')]
        .filter(link => matchMedia(link.media || 'all').matches)
        .map(link => link.href.replace(/.*css\\//, ''))"""
    page = visit.open("/#/chat")
    links = page.get_by_role("navigation", name="Pages")
    for name in ("Brio", "Brain", "Atlas", "Profile", "Model", "Chat"):
        links.get_by_role("link", name=name).click()
        page.wait_for_function("name => document.title.startsWith(name)", arg=name)
        page.wait_for_timeout(300)
        own = f"{name.lower()}.css"
        assert page.evaluate(applied) == ["tokens.css", "base.css", "shell.css", own]

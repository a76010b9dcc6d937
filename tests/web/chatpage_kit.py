"""A person at the chat page."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from server_kit import Unhurried, serving
from web_kit import watched

from colibri import LLM

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

FIRST = "Tell me a story about a fox."
HARMLESS = """() => {
    const prose = [...document.querySelectorAll('.prose, .bubble, .thinking-text, .call, .heads')];
    const bad = 'script,iframe,object,embed,style,form,base,meta,svg:not(.icon),img,link,math';
    const found = prose.flatMap((part) => [...part.querySelectorAll(bad)].map((e) => e.outerHTML));
    for (const element of prose.flatMap((part) => [...part.querySelectorAll('.block *')])) {
        for (const { name, value } of element.attributes) {
            const bad = /^(on.*|id|name)$/i.test(name) || /javascript:|data:/i.test(value);
            if (bad) found.push(element.outerHTML);
        }
    }
    if (window.hit !== undefined) found.push(`ran: ${window.hit}`);
    return found;
}"""


def say(page: Page, text: str) -> None:
    page.get_by_label("Message", exact=True).fill(text)
    page.keyboard.press("Enter")


def answers(page: Page) -> Locator:
    return page.get_by_role("article", name="Model")


def await_answers(page: Page, count: int = 1) -> None:
    page.wait_for_function(
        """count => {
            const all = [...document.querySelectorAll('.message.assistant')];
            const busy = (message) => message.getAttribute('aria-busy') !== 'false';
            return all.length === count && !all.some(busy);
        }""",
        arg=count,
    )


def set_number(page: Page, label: str, value: str) -> None:
    page.get_by_label("Settings", exact=True).get_by_label(label, exact=True).fill(value)


@contextlib.contextmanager
def scripted(browser: Browser, llm: LLM, script: Any, **config: Any) -> Iterator[tuple[Page, Any]]:
    """A page over a model whose answers are written beforehand; nothing may go wrong in it."""
    model = Unhurried(llm, script)
    with (
        serving(model, page=True, **config) as server,
        watched(browser, server.url, accept_downloads=True) as visited,
    ):
        page = visited.open()
        page.get_by_label("Server").get_by_text("demo").wait_for()
        yield page, model
        visited.check()

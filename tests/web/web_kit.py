"""The page in a real browser, which must not complain and must not talk to anyone else."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
AXE = Path(__file__).parent / "vendor" / "axe.js"
SEVERE = ("serious", "critical")
# What Chromium writes to the console about answers that a test asked for.
_EXPECTED = ("Failed to load resource: the server responded", "Failed to load resource: net::")


def needs_browser() -> pytest.MarkDecorator:
    """The tests of a module that cannot run without a browser, skipped by its name."""
    return pytest.mark.skipif(CHROMIUM is None, reason="no chromium (apt-get install chromium)")


@contextlib.contextmanager
def launched() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        flags = ["--no-sandbox", "--disable-dev-shm-usage", "--use-angle=swiftshader"]
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
        yield browser
        browser.close()


class Watched:
    """A context whose pages are watched: `check` fails on what they should not have done.

    errors: of the console and of scripts. foreign: requests to anyone but the server."""

    def __init__(self, context: BrowserContext, url: str) -> None:
        self.context, self.url = context, url
        self.errors: list[str] = []
        self.foreign: list[str] = []
        self.lenient = False  # the server goes away in this test, and browsers say so
        context.on("page", self._watch)
        context.on("request", lambda request: self._asked(request.url))

    def open(self, path: str = "/") -> Page:
        page = self.context.new_page()
        page.set_default_timeout(15_000)
        page.goto(self.url + path)
        return page

    def check(self) -> None:
        assert self.errors == []
        assert self.foreign == []

    def _watch(self, page: Page) -> None:
        page.on("console", lambda message: self._said(message.type, message.text))
        page.on("pageerror", lambda error: self.errors.append(str(error)))

    def _said(self, kind: str, text: str) -> None:
        if kind in ("error", "warning") and not (self.lenient and text.startswith(_EXPECTED)):
            self.errors.append(text)

    def _asked(self, url: str) -> None:
        if not url.startswith((self.url + "/", "data:", "blob:")):
            self.foreign.append(url)


@contextlib.contextmanager
def watched(browser: Browser, url: str, **options: Any) -> Iterator[Watched]:
    context = browser.new_context(**options)
    found = Watched(context, url)
    try:
        yield found
    finally:
        context.close()


def accessibility(page: Page) -> list[str]:
    """What axe-core finds serious: 'rule: element'."""
    # Through the debugger, not a tag: the page's own policy stays in force.
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{violation['id']}: {json.dumps(node['target'])} {node['failureSummary']}"
        for violation in found["violations"]
        if violation["impact"] in SEVERE
        for node in violation["nodes"]
    ]

"""The page in a real browser, which must not complain and must not talk to anyone else."""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest

from colibri import LLM
from colibri.engine.request import Event, Finished, PrefillProgress, Request, Token

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
AXE = Path(__file__).parent / "vendor" / "axe.js"
PHONE: dict[str, Any] = {
    "viewport": {"width": 390, "height": 844},
    "is_mobile": True,
    "has_touch": True,
}
SEVERE = ("serious", "critical")
# What Chromium writes to the console about answers that a test asked for.
_EXPECTED = ("Failed to load resource: the server responded", "Failed to load resource: net::")


def needs_browser() -> pytest.MarkDecorator:
    """The mark of tests that drive a browser: skipped by its name where there is none."""
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
        page.set_default_timeout(20_000)
        page.goto(self.url + path)
        return page

    def check(self) -> None:
        assert self.errors == [], self.errors
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


def dressed(page: Page, scheme: Literal["light", "dark"]) -> None:
    """The system's colours are these from now on, and a page that follows them has changed."""
    page.emulate_media(color_scheme=scheme)
    frames = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
    page.evaluate(f"() => {frames}")


def accessibility(page: Page) -> list[str]:
    """What axe-core finds serious: 'rule: element'."""
    # Through the debugger, not a tag: the page's own policy stays in force.
    page.evaluate(AXE.read_text(encoding="utf-8"))
    # Preloading would copy style sheets into the page, which its policy forbids.
    found = page.evaluate("() => axe.run(document, {preload: false, resultTypes: ['violations']})")
    return [
        f"{violation['id']}: {json.dumps(node['target'])} {node['failureSummary']}"
        for violation in found["violations"]
        if violation["impact"] in SEVERE
        for node in violation["nodes"]
    ]


def too_small(page: Page) -> list[str]:
    """What a finger would miss: all to press but links within a text."""
    found: list[str] = page.evaluate(
        """() => [...document.querySelectorAll('button, a[href], select, summary, textarea')]
            .filter(part => part.checkVisibility() && !part.closest('.skip, .sr-only'))
            .filter(part => !part.closest('p'))
            .map(part => [part.outerHTML.slice(0, 90), part.getBoundingClientRect()])
            .filter(([, box]) => box.width && (box.width < 36 || box.height < 36))
            .map(([markup, box]) => `${markup} ${box.width} x ${box.height}`)"""
    )
    return found


def typed(
    llm: LLM, text: str, *, pace: float = 0.0, reason: Any = "stop", prefill: float = 0.0
) -> Callable[[Request], Iterable[Event]]:
    """The script of an answer that is this text, with probabilities: every third token was unsure.

    pace: seconds before each token. prefill: seconds that the prompt takes, told in tenths."""
    assert llm.tokenizer is not None
    ids = llm.tokenizer.encode(text, add_special_tokens=False)
    other = llm.tokenizer.encode("fox", add_special_tokens=False)[0]

    def script(request: Request) -> Iterator[Event]:
        total = 10_000
        for tenth in range(10 if prefill else 0):
            left = prefill * (10 - tenth) / 10
            yield PrefillProgress(tenth * total // 10, total, 0, 1, 0, prefill - left, left)
            time.sleep(prefill / 10)
        for index, token_id in enumerate(ids):
            time.sleep(pace)
            logprob = -1.2 if index % 3 == 2 else -0.01
            yield Token(token_id, logprob, ((token_id, logprob), (other, -1.5)))
        yield Finished(reason)

    return script


class Gate:
    """A port that leads to a server, as long as it is open. Cut: connections break, new ones are
    refused. Stalled: they stay, and nothing passes. Forgotten: the same, but of new ones."""

    def __init__(self, to: tuple[str, int]) -> None:
        self._to = to
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._pairs: set[tuple[socket.socket, socket.socket]] = set()
        self._passes = threading.Event()
        self._passes.set()
        self._forgotten: list[threading.Event] = []
        self._is_open = True
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        self._is_open = False
        for pair in list(self._pairs):
            for sock in pair:
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)

    def open(self) -> None:
        self._is_open = True

    def stall(self) -> None:
        self._passes.clear()

    def flow(self) -> None:
        self._passes.set()

    def forget(self) -> None:
        self._passes.clear()
        self._forgotten.append(self._passes)
        self._passes = threading.Event()
        self._passes.set()

    def close(self) -> None:
        for passes in (self._passes, *self._forgotten):
            passes.set()
        self.cut()
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        until = time.monotonic() + 10
        while self._pairs and time.monotonic() < until:
            time.sleep(0.01)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                if not self._is_open:
                    client.close()
                    continue
                pair = (client, socket.create_connection(self._to))
                threading.Thread(target=self._join, args=pair, daemon=True).start()

    def _join(self, client: socket.socket, server: socket.socket) -> None:
        passes = self._passes
        with client, server:
            self._pairs.add((client, server))
            back = threading.Thread(target=self._pump, args=(server, client, passes), daemon=True)
            back.start()
            self._pump(client, server, passes)
            back.join()
            self._pairs.discard((client, server))

    def _pump(self, source: socket.socket, target: socket.socket, passes: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                passes.wait()
                target.sendall(data)
        for sock in (source, target):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

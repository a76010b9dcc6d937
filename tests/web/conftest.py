"""The embedded model behind a server with its page, and a browser for each file of tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from live_kit import live_server
from server_kit import Running, serving, thinking_model
from web_kit import Watched, launched, watched

from colibri import LLM

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@pytest.fixture(scope="session")
def llm() -> Iterator[LLM]:
    with LLM(ram="2GB", context=2048) as model:
        yield model


@pytest.fixture(scope="session")
def server(llm: LLM) -> Iterator[Running]:
    with serving(llm, page=True) as running:
        yield running


@pytest.fixture(scope="session")
def live() -> Iterator[Running]:
    """A server whose engine is listened to, and whose model has 12 slots for 32 experts a layer."""
    with live_server(pin="50%") as running:
        yield running


# Not for the whole run: Playwright keeps an event loop on this thread, where others want theirs.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launched() as started:
        yield started


@pytest.fixture
def visit(browser: Browser, server: Running) -> Iterator[Watched]:
    """A browser of its own, without a past; whatever a test does there, nothing may go wrong."""
    with watched(browser, server.url, viewport={"width": 1440, "height": 900}) as visited:
        yield visited
        visited.check()


@pytest.fixture
def page(visit: Watched) -> Page:
    return visit.open()


@pytest.fixture(scope="session")
def thinker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LLM]:
    folder = thinking_model(tmp_path_factory.mktemp("models") / "thinker")
    with LLM(folder, ram="2GB", context=2048) as model:
        yield model

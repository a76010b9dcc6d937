"""A server that loads, restarts, is slow or away: what the page says of it, and how it goes on."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from server_kit import Running, Unhurried, serving
from web_kit import Gate, needs_browser, typed, watched

from colibri import LLM

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = needs_browser()


def test_a_model_that_loads_is_waited_for(browser: Browser, llm: LLM) -> None:
    held = threading.Event()
    with serving(llm, page=True, held=held) as server, watched(browser, server.url) as visited:
        visited.lenient = True
        page = visited.open()
        page.get_by_text("The model is being loaded.").wait_for()
        page.get_by_label("Message", exact=True).fill("Hello")
        page.keyboard.press("Enter")
        page.get_by_text("the model is being loaded; trying again in").wait_for()
        held.set()
        page.get_by_role("article", name="Model").get_by_text("first token").wait_for()
        page.get_by_text("The model is being loaded.").wait_for(state="detached")
        visited.check()


def test_a_server_that_restarts_is_found_again(browser: Browser, llm: LLM) -> None:
    with serving(llm, page=True) as server:
        port = server.address[1]
        with watched(browser, server.url) as visited:
            visited.lenient = True
            page = visited.open()
            page.get_by_label("Server").get_by_text("demo").wait_for()
            _stop(server)
            page.get_by_text("this page waits for the next one").wait_for()
            with serving(llm, page=True, port=port, model_id="second"):
                page.get_by_label("Server").get_by_text("second").wait_for()
                page.get_by_text("this page waits for the next one").wait_for(state="detached")
                page.close()
            visited.check()


@contextlib.contextmanager
def gated(browser: Browser, server: Running) -> Iterator[tuple[Page, Gate]]:
    """A page that reaches the server through a gate, connected."""
    gate = Gate(server.address)
    with watched(browser, gate.url) as visited:
        visited.lenient = True
        page = visited.open()
        page.get_by_label("Server").get_by_text("decode").wait_for()
        yield page, gate
        page.close()
        visited.check()
    gate.close()


@pytest.fixture
def through(browser: Browser, server: Running) -> Iterator[tuple[Page, Gate]]:
    with gated(browser, server) as both:
        yield both


def test_a_lost_connection_comes_back_by_itself(through: tuple[Page, Gate]) -> None:
    page, gate = through
    gate.cut()
    page.get_by_text("The server cannot be reached.").wait_for()
    page.get_by_text("next try in").wait_for()
    gate.open()
    page.get_by_text("The server cannot be reached.").wait_for(state="detached")


def test_a_page_that_could_not_be_had_comes_with_the_connection(
    through: tuple[Page, Gate],
) -> None:
    page, gate = through
    gate.cut()
    page.get_by_text("The server cannot be reached.").wait_for()
    page.get_by_role("link", name="Profile").click()
    page.get_by_text("This page could not be loaded.").wait_for()
    gate.open()
    page.get_by_role("heading", name="Profile").wait_for()
    page.get_by_role("link", name="Brio").click()
    page.get_by_role("heading", name="Brio").wait_for()


def test_nobody_has_to_wait_for_the_next_try(through: tuple[Page, Gate]) -> None:
    page, gate = through
    gate.cut()
    page.get_by_text("next try in 8 s").wait_for()
    gate.open()
    page.get_by_role("button", name="Try now").click()
    page.get_by_text("The server cannot be reached.").wait_for(state="detached", timeout=6_000)


def test_numbers_of_a_server_that_is_gone_are_not_shown(through: tuple[Page, Gate]) -> None:
    page, gate = through
    figures = page.get_by_label("Server").locator("dl")
    page.wait_for_function("() => document.querySelector('.pulse dl').innerText.includes('MB')")
    gate.cut()
    page.get_by_label("Server").get_by_text("unreachable").last.wait_for()
    assert "MB" not in figures.inner_text()
    assert figures.locator("dd").all_inner_texts() == ["\u2013"] * 4
    gate.open()
    page.wait_for_function("() => document.querySelector('.pulse dl').innerText.includes('MB')")


@contextlib.contextmanager
def answering(browser: Browser, llm: LLM) -> Iterator[tuple[Page, Gate]]:
    """A page in the middle of an answer, behind a gate; its clock is the test's to move on."""
    model = Unhurried(llm, typed(llm, "word " * 400, pace=0.05))
    with serving(model, page=True) as server:
        gate = Gate(server.address)
        with watched(browser, gate.url) as visited:
            visited.lenient = True
            visited.context.clock.install()
            page = visited.open()
            page.get_by_label("Server").get_by_text("decode").wait_for()
            page.get_by_label("Message", exact=True).fill("Tell me a story.")
            page.keyboard.press("Enter")
            page.get_by_text("word word").wait_for()
            yield page, gate
            page.close()
            visited.check()
        gate.close()


def test_after_fifteen_silent_seconds_a_connection_is_lost(browser: Browser, llm: LLM) -> None:
    """As is an attempt that nobody answers. What comes in the end still counts."""
    with answering(browser, llm) as (page, gate):
        attempts: list[str] = []
        page.on("request", lambda asked: attempts.append(asked.url.rpartition("/")[2]))
        gate.stall()
        page.clock.run_for(6_000)
        page.get_by_text("The server is slow to answer.").wait_for()
        page.clock.run_for(11_000)
        page.get_by_text("The server cannot be reached.").wait_for()
        for _ in range(2):
            page.clock.run_for(18_000)
        assert attempts.count("events") >= 2
        gate.flow()
        page.clock.run_for(9_000)
        page.get_by_text("The server cannot be reached.").wait_for(state="detached")
        page.clock.run_for(2_000)
        text = page.locator(".prose").inner_text()
        page.wait_for_function(
            "old => document.querySelector('.prose').innerText.length > old", arg=len(text)
        )
        assert page.get_by_role("article", name="Model").get_attribute("aria-busy") == "true"
        page.get_by_role("button", name="Stop").click()


def test_an_answer_whose_connection_died_in_silence_breaks_off(browser: Browser, llm: LLM) -> None:
    """Nothing is closed, but only new connections lead anywhere, as after a router's restart."""
    with answering(browser, llm) as (page, gate):
        gate.forget()
        page.clock.run_for(17_000)
        page.clock.run_for(3_000)
        page.get_by_text("The server cannot be reached.").wait_for(state="detached")
        assert page.get_by_role("article", name="Model").get_attribute("aria-busy") == "true"
        page.clock.run_for(18_000)
        page.get_by_text("the connection broke off").wait_for()
        assert "word word" in page.locator(".prose").inner_text()


def test_a_slow_connection_is_told_and_used_again(through: tuple[Page, Gate]) -> None:
    page, gate = through
    gate.stall()
    page.get_by_text("The server is slow to answer.").wait_for()
    gate.flow()
    page.get_by_text("The server is slow to answer.").wait_for(state="detached")


def test_an_answer_that_breaks_off_stays_and_waits_for_a_person(browser: Browser, llm: LLM) -> None:
    model = Unhurried(llm, typed(llm, "word " * 40, pace=0.05))
    with serving(model, page=True) as server, gated(browser, server) as (page, gate):
        page.get_by_label("Message", exact=True).fill("Tell me a story.")
        page.keyboard.press("Enter")
        page.get_by_text("word word").wait_for()
        gate.cut()
        page.get_by_text("the connection broke off").wait_for()
        assert "word word" in page.locator(".prose").inner_text()
        gate.open()
        page.get_by_role("button", name="Try again").click()
        page.get_by_text("2 / 2").wait_for()
        assert page.locator(".prose").inner_text().count("word") == 40
        assert len(model.submitted) == 2


def _stop(server: Running) -> None:
    loop = server.server._loop
    assert loop is not None
    loop.call_soon_threadsafe(server.server.stop)

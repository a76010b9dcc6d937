"""Chat, as a person uses it: with the embedded model, and with answers written beforehand."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from chatpage_kit import FIRST, answers, await_answers, say, scripted, set_number
from server_kit import Running, Unhurried, serving, slow_down
from web_kit import Watched, accessibility, needs_browser, too_small, typed, watched

from colibri import LLM
from colibri.engine.request import Failed, PrefillProgress, Token
from colibri.errors import QueueFullError, ReadError

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = needs_browser()


def test_an_answer_with_its_figures(page: Page, llm: LLM, monkeypatch: pytest.MonkeyPatch) -> None:
    slow_down(llm, monkeypatch, 0.002)  # what comes all at once has no speed
    page.get_by_text("Talk with demo").wait_for()
    say(page, FIRST)
    await_answers(page)
    assert len(answers(page).locator(".prose").inner_text()) > 40
    figures = answers(page).locator(".stats").inner_text()
    assert re.search(r"[\d.]+ tok/s.*first token [\d.]+ m?s.*\d+ tokens", figures, re.S), figures
    assert page.get_by_role("heading", level=1).inner_text() == FIRST
    page.get_by_text(re.compile(r"^[\d,]+ of 2,048 tokens of context$")).wait_for()
    assert accessibility(page) == []


def test_the_same_seed_gives_the_same_text_and_a_bound_truncates(page: Page) -> None:
    page.get_by_role("button", name="Settings").click()
    set_number(page, "Seed", "7")
    set_number(page, "Longest answer", "12")
    say(page, FIRST)
    await_answers(page)
    page.get_by_text("Truncated").wait_for()
    first = answers(page).locator(".prose").inner_text()
    page.get_by_role("button", name="Answer again").click()
    page.get_by_text("2 / 2").wait_for()
    await_answers(page)
    assert answers(page).locator(".prose").inner_text() == first
    page.get_by_role("button", name="Reset all settings").click()
    assert page.get_by_label("Seed", exact=True).input_value() == ""


def test_every_setting_reaches_the_server(browser: Browser, thinker: LLM) -> None:
    with scripted(browser, thinker, typed(thinker, "</think>Yes.")) as (page, model):
        page.get_by_role("button", name="Settings").click()
        page.get_by_label("System prompt").fill("Be brief.")
        for label, value in {
            "Temperature": "0.5",
            "Top p": "0.9",
            "Top k": "7",
            "Min p": "0.05",
            "Repetition penalty": "1.2",
            "Longest answer": "33",
            "Seed": "11",
        }.items():
            set_number(page, label, value)
        page.get_by_label("Stop sequences").fill("END\nFIN")
        page.get_by_label("Thinking").select_option("off")
        page.get_by_label("Reasoning effort").select_option("low")
        say(page, FIRST)
        await_answers(page)
        params = model.submitted[0].params
        assert (params.temperature, params.top_p, params.top_k, params.min_p) == (0.5, 0.9, 7, 0.05)
        assert (params.repetition_penalty, params.max_tokens, params.seed) == (1.2, 33, 11)
        assert (params.stop, params.logprobs) == (("END", "FIN"), 5)
        prompt = thinker.tokenizer.decode(  # type: ignore[union-attr]
            model.submitted[0].prompt_ids, skip_special_tokens=False
        )
        assert "Be brief." in prompt
        page.get_by_label("Request the probability").uncheck()
        page.get_by_role("button", name="Answer again").click()
        page.get_by_text("2 / 2").wait_for()
        await_answers(page)
        assert model.submitted[1].params.logprobs is None


def test_what_is_done_otherwise_than_asked_is_told_below_the_answer(
    browser: Browser, thinker: LLM
) -> None:
    """And stays with it; an answer as asked has nothing there."""
    with scripted(browser, thinker, typed(thinker, "</think>Yes.")) as (page, _):
        page.get_by_role("button", name="Settings").click()
        set_number(page, "Longest answer", "99999")
        say(page, "caf\u00e9")
        await_answers(page)
        note = answers(page).locator(".told")
        assert note.inner_text().startswith("Note: max_tokens 99999 is more than")
        assert accessibility(page) == []
        page.reload()
        assert note.inner_text().startswith("Note: max_tokens 99999")
        page.get_by_role("button", name="Reset all settings").click()
        page.get_by_role("button", name="Answer again").click()
        page.get_by_text("2 / 2").wait_for()
        await_answers(page)
        assert note.count() == 0


def test_a_notice_is_shown_in_its_own_letters(page: Page) -> None:
    """In the header they are escaped, as Python's ascii() does."""
    text = 'tool f\u00e9 \u4f60 \U0001f600 it\'s "so" C:\\x41\\'
    header = ascii(text)[1:-1]
    read = """async header => {
        const { noticeOf } = await import("./static/lib/api.js");
        const headers = header === null ? {} : { "x-colibri-notice": header };
        return noticeOf(new Response("", { headers }));
    }"""
    assert page.evaluate(read, header) == text
    assert page.evaluate(read, None) is None


def test_with_a_wrong_setting_nothing_is_sent(page: Page) -> None:
    page.get_by_role("button", name="Settings").click()
    for label, value, says in (
        ("Temperature", "warm", "from 0 to 2"),
        ("Top k", "1.5", "a whole number"),
        ("Seed", "-1", "from 0 to 9007199254740991"),
    ):
        set_number(page, label, value)
        page.get_by_text(says, exact=True).wait_for()
        page.get_by_role("button", name="Reset all settings").click()
    set_number(page, "Temperature", "5")
    page.get_by_role("button", name="Close settings").click()
    say(page, FIRST)
    page.locator(".composer").get_by_text("Temperature: from 0 to 2").wait_for()
    assert page.get_by_role("button", name="Send", exact=True).is_disabled()
    assert answers(page).count() == 0
    page.get_by_role("button", name="Settings").click()
    page.get_by_role("button", name="Reset all settings").click()
    page.get_by_label("Message", exact=True).press("Enter")
    await_answers(page)
    assert len(answers(page).locator(".prose").inner_text()) > 20


def test_a_visit_elsewhere_keeps_the_place_and_the_draft(page: Page) -> None:
    field = page.get_by_label("Message", exact=True)
    say(page, FIRST)
    await_answers(page)
    field.fill("And then?")
    links = page.get_by_role("navigation", name="Pages")
    for other in ("Model", "Brio"):
        links.get_by_role("link", name=other).click()
        page.get_by_role("heading", level=1, name=other).wait_for()
    links.get_by_role("link", name="Chat").click()
    page.get_by_role("heading", level=1, name=FIRST).wait_for()
    assert field.input_value() == "And then?"
    page.get_by_role("link", name="New conversation").click()
    page.get_by_text("Talk with demo").wait_for()
    assert field.input_value() == ""
    page.go_back()
    page.get_by_role("heading", level=1, name=FIRST).wait_for()
    field.press("Enter")
    await_answers(page, 2)
    assert field.input_value() == ""


def test_a_conversation_that_is_too_long_says_what_helps(visit: Watched) -> None:
    visit.lenient = True
    page = visit.open()
    page.get_by_text("Talk with demo").wait_for()
    say(page, "fox " * 20_000)
    said = page.get_by_role("alert").filter(has_text="longer than the model's context")
    said.wait_for()
    assert page.get_by_role("button", name="Try again").count() == 0
    said.get_by_role("link", name="start a new conversation").click()
    page.get_by_text("Talk with demo").wait_for()


def test_no_gap_between_a_question_and_its_answer(page: Page) -> None:
    say(page, FIRST)
    await_answers(page)
    bubble = page.locator(".bubble").bounding_box()
    prose = page.locator(".prose").bounding_box()
    assert bubble
    assert prose
    assert prose["y"] - bubble["y"] - bubble["height"] < 40
    edit = page.get_by_role("button", name="Edit", exact=True)
    opacity = "part => getComputedStyle(part).opacity"
    page.mouse.move(1, 1)
    page.wait_for_function(
        "() => getComputedStyle(document.querySelector('.actions .button')).opacity === '0'"
    )
    page.get_by_role("article", name="You").hover()
    assert float(edit.evaluate(opacity)) > 0


def test_progress_of_a_long_prompt_and_stop(browser: Browser, llm: LLM) -> None:
    script = typed(llm, "word " * 400, pace=0.05, prefill=4.0)
    with scripted(browser, llm, script) as (page, model):
        say(page, FIRST)
        page.get_by_text(
            re.compile(r"Reading the prompt: [\d,]+ of 10,000 tokens .* left")
        ).wait_for()
        assert page.get_by_role("meter", name="Prompt read").is_visible()
        page.get_by_text(re.compile(r"\d+ tokens \d+(\.\d+)? tok/s")).wait_for()
        assert answers(page).get_attribute("aria-busy") == "true"
        page.get_by_role("button", name="Stop").click()
        await_answers(page)
        page.get_by_text("Stopped", exact=True).wait_for()
        assert "word word" in answers(page).inner_text()
        page.wait_for_timeout(200)
        assert model.submitted[0].cancelled
        page.reload()
        await_answers(page)
        assert "word word" in answers(page).inner_text()


def test_two_conversations_are_answered_at_once(browser: Browser, llm: LLM) -> None:
    with scripted(browser, llm, typed(llm, "word " * 60, pace=0.05)) as (page, _):
        say(page, "The first.")
        page.get_by_text("word word").wait_for()
        page.get_by_role("link", name="New conversation").click()
        page.get_by_text("Talk with demo").wait_for()
        say(page, "The second.")
        page.get_by_text("word word").wait_for()
        page.get_by_role("link", name=re.compile("^The first")).click()
        page.get_by_role("heading", level=1, name="The first.").wait_for()
        await_answers(page)
        assert answers(page).inner_text().count("word") == 60
        page.get_by_role("link", name=re.compile("^The second")).click()
        page.get_by_role("heading", level=1, name="The second.").wait_for()
        await_answers(page)
        assert answers(page).inner_text().count("word") == 60


def test_a_failure_in_the_middle_is_told_and_can_be_repeated(browser: Browser, llm: LLM) -> None:
    tries: list[int] = []

    def script(request: Any) -> Iterator[Any]:
        tries.append(1)
        if len(tries) > 1:
            yield from typed(llm, "All is well.")(request)
            return
        yield PrefillProgress(0, 10, 0, 6, 0, 0.0, None)
        yield Token(50, -0.1, ())
        yield Failed(ReadError("expert 3 <b>cannot</b> be read"))

    with scripted(browser, llm, script) as (page, _):
        say(page, FIRST)
        page.get_by_text("cannot").wait_for()
        assert len(tries) == 1  # nothing that had begun is asked for again unasked
        page.get_by_role("button", name="Try again").click()
        page.get_by_text("All is well.").wait_for()


def test_a_busy_server_is_asked_again(browser: Browser, llm: LLM) -> None:
    tries: list[int] = []

    class Busy(Unhurried):
        def submit(self, asked: Any) -> None:
            tries.append(1)
            if len(tries) == 1:
                raise QueueFullError("8 requests wait", 1.0)
            super().submit(asked)

    with (
        serving(Busy(llm, typed(llm, "At last.")), page=True) as server,
        watched(browser, server.url) as visited,
    ):
        visited.lenient = True
        page = visited.open()
        say(page, FIRST)
        page.get_by_text("again in").wait_for()
        page.get_by_text("At last.").wait_for()
        assert len(tries) == 2
        visited.check()


def test_a_reader_is_not_dragged_to_the_end(browser: Browser, llm: LLM) -> None:
    with scripted(browser, llm, typed(llm, "word\n\n" * 150, pace=0.02)) as (page, _):
        say(page, FIRST)
        to_end = page.get_by_role("button", name="To the end")
        thread = page.get_by_role("region", name="Messages")
        page.wait_for_function("() => document.querySelector('.thread').scrollTop > 300")
        thread.evaluate("element => element.scrollTo(0, 0)")
        to_end.wait_for()
        page.wait_for_timeout(300)
        assert thread.evaluate("element => element.scrollTop") == 0
        to_end.click()
        await_answers(page)
        page.wait_for_function(
            """() => {
                const { scrollHeight, scrollTop, clientHeight } = document.querySelector('.thread');
                return scrollHeight - scrollTop - clientHeight < 5;
            }"""
        )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_a_phone(browser: Browser, server: Running, scheme: Any) -> None:
    size: Any = {"width": 390, "height": 844}
    options: Any = {"viewport": size, "is_mobile": True, "has_touch": True}
    with watched(browser, server.url, color_scheme=scheme, **options) as visited:
        page = visited.open()
        say(page, f"{FIRST} It shall be long enough for a title that has no room here.")
        await_answers(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert too_small(page) == []
        page.get_by_role("button", name="Conversations").click()
        page.get_by_role("link", name=re.compile(f"^{re.escape(FIRST)}")).wait_for()
        assert accessibility(page) == []
        # By keys: into the list, and out of it again.
        assert page.evaluate("() => document.activeElement.closest('.conversations') !== null")
        page.keyboard.press("Escape")
        page.locator(".conversations").wait_for(state="hidden")
        assert page.evaluate("() => document.activeElement.ariaLabel") == "Conversations"
        page.keyboard.press("Enter")
        page.get_by_role("link", name="New conversation").click()
        page.get_by_text("Talk with demo").wait_for()
        page.get_by_role("button", name="Settings").click()
        page.get_by_label("System prompt").fill("Short.")
        assert accessibility(page) == []
        assert too_small(page) == []
        visited.check()

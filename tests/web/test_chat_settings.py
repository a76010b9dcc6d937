"""The settings of the chat page: a drawer on a phone, and only what the model takes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from chatpage_kit import FIRST, answers, await_answers, say, scripted
from server_kit import Running
from web_kit import PHONE, accessibility, needs_browser, too_small, typed, watched

from colibri import LLM

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = needs_browser()

# Past its last part the browser's own bar has the focus: then it is the body's.
INSIDE = """() => {
    const { activeElement: at, body } = document;
    return at === body || at.closest('dialog.over') !== null;
}"""
TOOL = {"name": "look_up", "parameters": {"type": "object", "properties": {}}}


def settings(page: Page) -> Any:
    return page.get_by_role("dialog", name="Settings")


@pytest.mark.parametrize("way", ["Escape", "beside", "button"])
def test_on_a_phone_the_drawer_is_modal(browser: Browser, server: Running, way: str) -> None:
    with watched(browser, server.url, **PHONE) as visited:
        page = visited.open()
        page.get_by_role("button", name="Settings").tap()
        settings(page).wait_for()
        assert page.evaluate("document.querySelector('dialog.over').matches(':modal')")
        for _ in range(30):
            page.keyboard.press("Tab")
            assert page.evaluate(INSIDE), "the focus left the drawer"
        box = page.get_by_role("button", name="Conversations").bounding_box()
        assert box is None or page.evaluate(
            "at => !document.elementFromPoint(...at).closest('.talk')", [20, 20]
        )
        assert accessibility(page) == []
        assert too_small(page) == []
        if way == "Escape":
            page.keyboard.press("Escape")
        elif way == "beside":
            page.touchscreen.tap(20, 30)
        else:
            page.get_by_role("button", name="Close settings").tap()
        settings(page).wait_for(state="detached")
        assert page.locator(".with-list").count() == 0
        assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Settings"
        page.reload()
        page.get_by_text("Talk with").wait_for()
        assert settings(page).count() == 0
        visited.check()


def test_under_the_open_list_nothing_of_the_talk_is_reached(
    browser: Browser, server: Running
) -> None:
    with watched(browser, server.url, **PHONE) as visited:
        page = visited.open()
        page.get_by_role("button", name="Conversations").tap()
        page.locator(".with-list").wait_for()
        assert page.evaluate("document.querySelector('.talk').inert")
        page.keyboard.press("Escape")
        page.locator(".with-list").wait_for(state="detached")
        assert not page.evaluate("document.querySelector('.talk').inert")
        visited.check()


def test_beside_the_talk_the_settings_leave_it_usable_and_stay(page: Page) -> None:
    page.get_by_role("button", name="Settings").click()
    settings(page).wait_for()
    assert not page.evaluate("document.querySelector('dialog.drawer').matches(':modal')")
    say(page, FIRST)
    await_answers(page)
    page.reload()
    settings(page).wait_for()
    page.set_viewport_size({"width": 800, "height": 700})
    settings(page).wait_for(state="detached")


def test_escape_closes_them_there_too(page: Page) -> None:
    page.get_by_role("button", name="Settings", exact=True).click()
    settings(page).get_by_role("button", name="Close settings").press("Escape")
    settings(page).wait_for(state="detached")


def test_a_model_is_offered_only_what_it_has(page: Page) -> None:
    """What was set for another model is kept, and not sent."""
    kept = {"thinking": "on", "effort": "high", "tools": "[{", "stop": ""}
    page.evaluate("kept => localStorage.setItem('colibri.sampling', kept)", json.dumps(kept))
    page.reload()
    page.get_by_role("button", name="Settings").click()
    text = "This model has no switch for thinking, levels of reasoning effort or tools."
    settings(page).get_by_text(text).wait_for()
    for label in ("Thinking", "Reasoning effort", "Tools"):
        assert settings(page).get_by_label(label).count() == 0
    say(page, FIRST)
    await_answers(page)
    assert answers(page).locator(".told, .notice").count() == 0
    assert "high" in page.evaluate("localStorage.getItem('colibri.sampling')")


def test_a_model_that_has_them_is_offered_them(browser: Browser, thinker: LLM) -> None:
    with scripted(browser, thinker, typed(thinker, "</think>Yes.")) as (page, _):
        page.get_by_role("button", name="Settings").click()
        efforts = (
            settings(page).get_by_label("Reasoning effort").locator("option").all_inner_texts()
        )
        assert efforts == ["model default", "low", "medium", "high", "max"]
        assert settings(page).get_by_label("Thinking").count() == 1
        settings(page).get_by_label("Tools").fill("[{]")
        page.locator(".composer").get_by_text("Tools: this is not valid JSON").wait_for()
        settings(page).get_by_label("Tools").fill(json.dumps([TOOL]))
        assert page.get_by_text("this is not valid JSON").count() == 0
        page.get_by_role("button", name="Reset all settings").click()
        assert settings(page).get_by_label("Tools").input_value() == ""
        with page.expect_request("**/v1/chat/completions") as asked:
            say(page, FIRST)
        assert "tools" not in asked.value.post_data_json
        await_answers(page)


COMPOSED = """([selector, key]) => {
    const field = document.querySelector(selector);
    const init = { key, keyCode: 229, which: 229, bubbles: true, cancelable: true };
    field.dispatchEvent(new KeyboardEvent("keydown", init));
}"""


def test_a_key_that_ends_a_composition_sends_nothing_and_drops_nothing(
    browser: Browser, llm: LLM
) -> None:
    """Safari's: isComposing is false by then, the key's code is 229."""
    with scripted(browser, llm, typed(llm, "Good.")) as (page, model):
        page.get_by_label("Message", exact=True).fill("half a w\u014d")
        page.evaluate(COMPOSED, [".composer textarea", "Enter"])
        page.wait_for_timeout(150)
        assert (answers(page).count(), len(model.submitted)) == (0, 0)
        page.keyboard.press("Enter")
        await_answers(page)
        page.get_by_role("article", name="You").hover()
        page.get_by_role("button", name="Edit").click()
        editor = page.get_by_label("Edit the message")
        page.locator(".editor textarea:focus").wait_for()  # its caret is set then
        editor.fill("another")
        for key in ("Enter", "Escape"):
            page.evaluate(COMPOSED, [".editor textarea", key])
        page.wait_for_timeout(150)
        assert editor.input_value() == "another"
        assert len(model.submitted) == 1


def test_nor_a_question_of_brio(page: Page) -> None:
    page.get_by_role("link", name="Brio").click()
    page.get_by_label("Text of the document").fill("A fox.")
    page.get_by_label("Question", exact=True).fill("A fox?")
    page.evaluate(COMPOSED, [".question-text", "Enter"])
    page.wait_for_timeout(150)
    assert page.locator(".answer").count() == 0
    page.get_by_label("Question", exact=True).press("Enter")
    page.locator(".answer").wait_for()


def test_an_answer_that_comes_at_once_has_a_speed_too(browser: Browser, llm: LLM) -> None:
    with scripted(browser, llm, typed(llm, "Yes.")) as (page, _):
        say(page, "Is it?")
        await_answers(page)
        answers(page).locator(".stats").get_by_text("tok/s").wait_for()

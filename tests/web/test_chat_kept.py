"""Conversations: branches, and what a browser keeps of them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from chatpage_kit import FIRST, HARMLESS, answers, await_answers, say, scripted
from web_kit import Watched, needs_browser, typed

from colibri import LLM

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = needs_browser()


def test_everything_survives_a_reload(page: Page) -> None:
    say(page, FIRST)
    await_answers(page)
    text = answers(page).locator(".prose").inner_text()
    page.reload()
    await_answers(page)
    assert answers(page).locator(".prose").inner_text() == text
    say(page, "Another one.")
    await_answers(page, 2)
    page.get_by_role("link", name="New conversation").click()
    page.get_by_text("Talk with demo").wait_for()
    assert answers(page).count() == 0
    page.get_by_role("link", name=re.compile(f"^{re.escape(FIRST)}")).click()
    await_answers(page, 2)


def test_edit_makes_a_branch_and_again_another_answer(page: Page) -> None:
    say(page, FIRST)
    await_answers(page)
    first = answers(page).locator(".prose").inner_text()
    page.get_by_role("button", name="Answer again").click()
    page.get_by_text("2 / 2").wait_for()
    await_answers(page)
    assert answers(page).locator(".prose").inner_text() != first
    page.get_by_role("button", name="Earlier version").click()
    page.get_by_text("1 / 2").wait_for()
    assert answers(page).locator(".prose").inner_text() == first
    page.get_by_role("article", name="You").hover()
    page.get_by_role("button", name="Edit").click()
    page.locator(".editor textarea:focus").wait_for()  # its caret is set then
    page.get_by_label("Edit the message").fill("Tell me about an owl.")
    page.get_by_role("button", name="Send", exact=True).first.click()
    await_answers(page)
    you = page.get_by_role("article", name="You")
    assert "owl" in you.inner_text()
    assert "2 / 2" in you.inner_text()
    you.get_by_role("button", name="Earlier version").click()
    you.get_by_text("1 / 2").wait_for()
    assert FIRST in you.inner_text()
    assert answers(page).locator(".prose").inner_text() == first
    page.wait_for_timeout(500)  # no person is quicker
    page.reload()
    await_answers(page)
    assert answers(page).locator(".prose").inner_text() == first


def test_leaving_in_the_middle_keeps_what_was_written(browser: Browser, llm: LLM) -> None:
    with scripted(browser, llm, typed(llm, "word " * 400, pace=0.05)) as (page, _):
        say(page, FIRST)
        page.get_by_text("word word").wait_for()
        page.wait_for_timeout(2_600)
        page.reload()
        await_answers(page)
        assert "word word" in answers(page).inner_text()
        page.get_by_text("Stopped", exact=True).wait_for()


def test_export_import_and_delete(browser: Browser, llm: LLM, tmp_path: Path) -> None:
    with scripted(browser, llm, typed(llm, "An **answer**.")) as (page, _):
        say(page, "A / question: <x>?")
        await_answers(page)
        page.get_by_label("Export", exact=True).click()
        with page.expect_download() as saving:
            page.get_by_role("button", name="Markdown").click()
        written = Path(saving.value.path()).read_text(encoding="utf-8")
        assert saving.value.suggested_filename == "A-question-x.md"
        assert "## You\n\nA / question: <x>?" in written
        assert "## Model\n\nAn **answer**." in written
        with page.expect_download() as saving:
            page.get_by_role("button", name="Export all").click()
        kept = tmp_path / "all.json"
        saving.value.save_as(kept)
        assert len(json.loads(kept.read_text(encoding="utf-8"))["conversations"]) == 1
        page.get_by_role("link", name=re.compile("question: <x>")).hover()
        page.get_by_role("button", name=re.compile("^Delete A")).click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_role("button", name="Keep it").click()
        page.get_by_role("link", name=re.compile("question: <x>")).hover()
        page.get_by_role("button", name=re.compile("^Delete A")).click()
        dialog.get_by_role("button", name="Delete").click()
        page.get_by_text("There are no conversations yet.").first.wait_for()
        page.reload()
        page.get_by_text("Talk with demo").wait_for()
        assert page.get_by_role("link", name=re.compile("question: <x>")).count() == 0
        page.get_by_label("File to import").set_input_files(kept)
        page.get_by_text("1 imported").wait_for()
        page.get_by_role("link", name=re.compile("question: <x>")).click()
        await_answers(page)
        assert answers(page).locator("strong").inner_text() == "answer"
        page.get_by_label("File to import").set_input_files(kept)
        page.get_by_text("0 imported, 1 already here").wait_for()
        assert page.get_by_role("link", name=re.compile("question: <x>")).count() == 1


def test_what_is_saved_while_the_list_is_read_stays_in_it(page: Page) -> None:
    """As on a slow browser, whose list comes when the first question has been asked."""
    titles = page.evaluate(
        """async (form) => {
            const store = await import('./static/pages/chat/store.js');
            await store.loadList();
            const listed = store.loadList();
            store.add({ ...form, id: 'abc', title: 'New', created: 1, updated: 1 });
            const saved = store.saveNow('abc');
            await listed;
            const titles = () => store.heads.value.map((head) => head.title);
            const while_saved = titles();
            await saved;
            await store.loadList();
            return [while_saved, titles()];
        }""",
        FORM | {"nodes": {"aa": NODE}},
    )
    assert titles == [["New"], ["New"]]


def test_what_is_said_to_be_imported_outlives_a_reload(page: Page, tmp_path: Path) -> None:
    file = tmp_path / "many.json"
    many = [FORM | {"title": f"Number {n}", "nodes": {"aa": NODE}} for n in range(120)]
    many = [each | {"system": each["title"]} for each in many]
    file.write_text(json.dumps({"conversations": many}), encoding="utf-8")
    page.get_by_label("File to import").set_input_files(file)
    page.get_by_text("120 imported").wait_for()
    page.reload()
    page.locator(".heads li").nth(119).wait_for()


NODE = {"id": "aa", "parent": "root", "role": "user", "content": "Hi"}
FORM = {"version": 1, "id": "x", "title": "T", "system": "", "nodes": {"aa": NODE}}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{", "this is not valid JSON"),
        ("[]", "this is not an export"),
        (json.dumps(FORM | {"version": 9}), "version 9 is not known"),
        (
            json.dumps(FORM | {"nodes": {"a": NODE | {"role": "system"}}}),
            "a role that is not known",
        ),
        (json.dumps(FORM | {"nodes": {"a": NODE | {"parent": "bb"}}}), "without a parent"),
        (json.dumps(FORM | {"nodes": {"a": NODE | {"parent": "aa"}}}), "lead nowhere"),
        (json.dumps(FORM | {"nodes": {"a": NODE | {"content": 3}}}), "content is no text"),
        (json.dumps(FORM | {"nodes": {"a": NODE | {"tokens": [["x"]]}}}), "a token that is none"),
    ],
    ids=lambda value: value if " " in value and "{" not in value else "",
)
def test_a_file_that_is_no_export_is_refused(page: Page, content: str, says: str) -> None:
    name = "<img src=x onerror=window.hit=1>.json"
    file = {"name": name, "mimeType": "application/json", "buffer": content.encode()}
    page.get_by_label("File to import").set_input_files([file])  # type: ignore[list-item]
    notice = page.get_by_text(re.compile(re.escape(says)))
    notice.wait_for()
    assert name in notice.inner_text()
    assert page.evaluate(HARMLESS) == []


def test_an_imported_conversation_runs_nothing(page: Page) -> None:
    evil = "<img src=x onerror=window.hit=1>"
    reply = {"id": "bb", "parent": "aa", "role": "assistant", "content": evil, "error": evil}
    reply |= {"finish": "error", "reasoning": evil, "calls": [{"id": evil, "name": evil}]}
    reply["calls"][0]["arguments"] = evil  # type: ignore[index]
    reply |= {"tokens": [[evil, -0.5, [[evil, -0.5]]]], "model": evil}
    nodes = {"__proto__": NODE | {"content": evil}, "constructor": reply}
    content = json.dumps(FORM | {"title": evil, "nodes": nodes, "chosen": {"__proto__": "aa"}})
    file = {"name": "a.json", "mimeType": "application/json", "buffer": content.encode()}
    page.get_by_label("File to import").set_input_files([file])  # type: ignore[list-item]
    page.get_by_text("1 imported").wait_for()
    page.get_by_role("button", name="Shade doubt").click()
    page.get_by_role("link", name=re.compile("^<img")).click()
    page.get_by_role("article", name="Model").wait_for()
    page.get_by_text("Thought").click()
    page.wait_for_timeout(200)
    assert page.evaluate(HARMLESS) == []


def test_two_tabs_know_of_each_other(visit: Watched) -> None:
    first, second = visit.open(), visit.open()
    say(first, FIRST)
    await_answers(first)
    second.get_by_role("link", name=re.compile(f"^{re.escape(FIRST)}")).click()
    await_answers(second)
    say(second, "More.")
    await_answers(second, 2)
    await_answers(first, 2)


def delete(page: Page, title: str) -> None:
    page.get_by_role("link", name=re.compile(f"^{re.escape(title)}")).hover()
    page.get_by_role("button", name=f"Delete {title}").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()


def test_deleted_in_one_tab_is_gone_in_the_other(browser: Browser, llm: LLM) -> None:
    """Also while it being answered there."""
    with scripted(browser, llm, typed(llm, "word " * 400, pace=0.05)) as (first, model):
        say(first, FIRST)
        first.get_by_text("word word").wait_for()
        first.get_by_label("Message", exact=True).fill("And then?")
        second = first.context.new_page()
        second.goto(first.url)
        second.get_by_text("word word").wait_for()
        delete(second, FIRST)
        first.get_by_text(f"\u201c{FIRST}\u201d was deleted in another tab.").wait_for()
        first.get_by_text("Talk with demo").wait_for()
        assert first.get_by_role("link", name=re.compile(f"^{re.escape(FIRST)}")).count() == 0
        assert first.get_by_label("Message", exact=True).input_value() == "And then?"
        first.wait_for_timeout(300)
        assert model.submitted[0].cancelled
        first.get_by_role("button", name="OK").click()
        for page in (first, second):
            page.reload()
            page.get_by_text("There are no conversations yet.").first.wait_for()


def test_what_was_deleted_unheard_does_not_come_back_by_writing_there(visit: Watched) -> None:
    visit.context.add_init_script("delete globalThis.BroadcastChannel;")
    first, second = visit.open(), visit.open()
    say(first, FIRST)
    await_answers(first)
    second.reload()
    delete(second, FIRST)
    second.get_by_text("There are no conversations yet.").first.wait_for()
    say(first, "More.")
    first.get_by_text("was deleted in another tab.").wait_for()
    first.get_by_text("Talk with demo").wait_for()
    second.reload()
    second.get_by_text("There are no conversations yet.").first.wait_for()


def test_the_list_says_which_is_being_answered(browser: Browser, llm: LLM) -> None:
    with scripted(browser, llm, typed(llm, "word " * 30, pace=0.1)) as (page, _):
        say(page, FIRST)
        page.get_by_text("word word").wait_for()
        page.get_by_role("link", name="New conversation").click()
        busy = page.get_by_role("link", name=f"{FIRST} being answered")
        busy.wait_for()
        assert busy.locator(".beat").is_visible()
        busy.wait_for(state="detached")
        assert page.get_by_role("link", name=re.compile(f"^{re.escape(FIRST)}")).count() == 1


def test_a_conversation_that_is_not_there_is_a_new_one(visit: Watched) -> None:
    page = visit.open("/#/chat/doesnotexist")
    page.get_by_text("Talk with demo").wait_for()
    page.wait_for_function("() => location.hash === '#/chat'")


def test_a_browser_that_keeps_nothing_says_so(visit: Watched) -> None:
    visit.context.add_init_script("indexedDB.open = () => { throw new Error('forbidden') };")
    page = visit.open()
    page.get_by_text("conversations are lost when the tab is closed").wait_for()
    say(page, FIRST)
    await_answers(page)

"""Brio: closed questions about a document, asked of the embedded model and of the real endpoint."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
from server_kit import Running
from web_kit import Watched, accessibility, needs_browser, watched

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

pytestmark = needs_browser()

TEXT = "The fox met an owl by the river. The owl told it a story about the moon. " * 8


def begin(visit: Watched) -> Page:
    page = visit.open("/#/brio")
    page.get_by_label("Text of the document").wait_for()
    page.get_by_label("Server").get_by_text("demo").wait_for()
    return page


def question(page: Page, number: int) -> Locator:
    return page.get_by_label(f"Question {number}", exact=True)


def ask(page: Page, number: int, text: str, *options: str) -> None:
    part = question(page, number)
    part.get_by_label("Question", exact=True).fill(text)
    for index, option in enumerate(options):
        if index > 1:
            part.get_by_role("button", name="Answer", exact=True).click()
        part.get_by_label(f"Answer {index + 1}", exact=True).fill(option)


def shown(part: Locator) -> dict[str, float]:
    part.locator(".bars").wait_for()
    rows = part.locator(".bars tbody tr").all()
    cells = [row.locator("td").all_inner_texts() for row in rows]
    return {name: float(p.removesuffix(" %")) for name, _, p in cells}


def test_answers_are_those_of_the_endpoint(visit: Watched, server: Running) -> None:
    page = begin(visit)
    page.get_by_label("Text of the document").fill(TEXT)
    ask(page, 1, "Whom did the fox meet?", "an owl", "a teacher", "nobody at all")
    page.get_by_role("button", name="Add a question").click()
    ask(page, 2, "Was there a river?", "yes", "no")
    page.get_by_role("button", name="Ask all 2").click()
    found = [shown(question(page, 1)), shown(question(page, 2))]
    questions = [
        {"question": "Whom did the fox meet?", "options": ["an owl", "a teacher", "nobody at all"]},
        {"question": "Was there a river?", "options": ["yes", "no"]},
    ]
    body = {"state": TEXT, "questions": questions}
    reply = httpx2.post(f"{server.url}/v1/score", json=body, timeout=60).json()
    for part, bars, answer in zip((1, 2), found, reply["answers"], strict=True):
        expected = {choice["option"]: choice["p"] * 100 for choice in answer["choices"]}
        assert bars.keys() == expected.keys()
        for option, p in bars.items():
            assert abs(p - expected[option]) < 0.06
        says = question(page, part).locator(".answer-says").inner_text()
        assert answer["answer"] in says
        assert f"entropy {answer['entropy']:.2f}" in says
        assert re.search("certain|fairly sure|leaning|unsure|undecided|disagree", says)
    took = page.get_by_label("What it took")
    written = took.locator("div", has_text="tokens written").locator("dd").first.inner_text()
    read = took.locator("div", has_text="tokens computed").locator("dd").first.inner_text()
    prompt = took.locator("div", has_text="prompt tokens").locator("dd").first.inner_text()
    assert int(written) > 0  # of its own answers
    # The document stands in both prompts, and is read once.
    from_prompts = int(read.replace(",", "")) - int(written)
    assert 0 < from_prompts < int(prompt.replace(",", "")) * 0.7
    assert [each.inner_text() for each in took.locator(".says").all()] == [
        "document and question, counted for each question",
        "of the answers that the model began, to hold yours against",
        "all of these, and of your answers, that were not known from before",
    ]
    # What it writes is said where the page says what it does.
    assert "begins an answer of its own" in page.locator(".page-head").inner_text()
    assert accessibility(page) == []


def test_one_question_alone_and_another_way_to_compare(visit: Watched) -> None:
    page = begin(visit)
    assert page.get_by_role("button", name="Ask", exact=True).first.is_disabled()
    page.get_by_label("Text of the document").fill(TEXT)
    ask(page, 1, "Whom did the fox meet?", "an owl", "a very old and tired teacher")
    page.keyboard.press("Enter")
    shown(question(page, 1))
    page.get_by_label("compare by").select_option("mean")
    assert question(page, 1).locator(".bars").count() == 0  # that was another question
    with page.expect_request("**/v1/score") as sent:
        question(page, 1).get_by_role("button", name="Ask", exact=True).click()
    assert [q["normalize"] for q in sent.value.post_data_json["questions"]] == ["mean"]
    shown(question(page, 1))


def test_nothing_is_certain_where_the_ways_to_compare_disagree(visit: Watched) -> None:
    page = begin(visit)
    said = "the options have 1 to 9 tokens, and normalize decides: by mean it is 'a', by sum 'b'"
    choices = [
        {"option": "a", "p": 0.994, "logprob": -9.0, "mean_logprob": -1.0, "tokens": 9},
        {"option": "b", "p": 0.006, "logprob": -6.1, "mean_logprob": -6.1, "tokens": 1},
    ]
    reply: dict[str, Any] = {
        "answers": [{"answer": "a", "entropy": 0.05, "choices": choices, "warnings": [said]}],
        "usage": {"prompt_tokens": 1, "read_tokens": 1, "completion_tokens": 0},
    }
    page.route("**/v1/score", lambda route: route.fulfill(json=reply))
    page.get_by_label("Text of the document").fill(TEXT)
    ask(page, 1, "Which?", "a", "b")
    page.keyboard.press("Enter")
    part = question(page, 1)
    part.get_by_text("the ways to compare disagree").wait_for()
    part.get_by_text("compare by mean says \u201ca\u201d, compare by sum \u201cb\u201d").wait_for()
    assert part.get_by_text("certain", exact=True).count() == 0
    assert part.get_by_text("normalize").count() == 0
    choices[1] |= {"logprob": -16.1, "mean_logprob": -16.1}
    reply["answers"][0]["warnings"] = []
    part.get_by_role("button", name="Ask", exact=True).click()
    part.get_by_text("certain", exact=True).wait_for()


def test_questions_and_document_stay(visit: Watched) -> None:
    page = begin(visit)
    page.get_by_label("Text of the document").fill(TEXT)
    ask(page, 1, "Whom did the fox meet?", "an owl", "a teacher", "nobody")
    question(page, 1).get_by_role("button", name="Remove answer 2").click()
    page.get_by_role("button", name="Add a question").click()
    ask(page, 2, "Second?", "a", "b")
    page.reload()
    assert page.get_by_label("Text of the document").input_value() == TEXT
    first = question(page, 1)
    assert first.get_by_label("Answer 2", exact=True).input_value() == "nobody"
    first.get_by_role("button", name="Remove the question").click()
    assert question(page, 1).get_by_label("Question", exact=True).input_value() == "Second?"
    assert question(page, 2).count() == 0
    page.get_by_role("button", name="Remove the document").click()
    assert page.get_by_label("Text of the document").input_value() == ""


@pytest.mark.parametrize("name", ["a.txt", "b.md", "c.json", "d.csv", "UPPER.TXT"])
def test_text_files_are_taken(visit: Watched, name: str) -> None:
    page = begin(visit)
    file: Any = {"name": name, "mimeType": "", "buffer": "Größe, 1\n".encode()}
    page.get_by_label("Document file").set_input_files([file])
    page.get_by_label("Document", exact=True).get_by_text(name).wait_for()
    assert page.get_by_label("Text of the document").input_value() == "Größe, 1\n"


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.pdf", b"%PDF", "only text files are read here"),
        ("page.html", b"<p>", "not .html"),
        ("README", b"x", "a file without an ending"),
        ("a.txt", b"\xff\xfe\x00x", "not text in UTF-8"),
        ("b.txt", b"a\0b", "this is not text"),
        ("c.md", b" \n", "it is empty"),
        ("d.csv", b"x" * 8_000_001, "more than 8 MB"),
        ("<img src=x onerror=window.hit=1>.exe", b"MZ", "not .exe"),
    ],
    ids=["pdf", "html", "none", "utf16", "binary", "empty", "large", "markup"],
)
def test_other_files_are_refused_with_the_reason(
    visit: Watched, name: str, content: bytes, says: str
) -> None:
    page = begin(visit)
    page.get_by_label("Text of the document").fill("before")
    file: Any = {"name": name, "mimeType": "text/plain", "buffer": content}
    page.get_by_label("Document file").set_input_files([file])
    notice = page.get_by_role("alert").get_by_text(says)
    notice.wait_for()
    assert name in notice.inner_text()
    assert page.get_by_label("Text of the document").input_value() == "before"
    assert page.evaluate("() => window.hit") is None


DROP = """([element, name, content]) => {
    const data = new DataTransfer();
    if (name) data.items.add(new File([content], name));
    else data.setData('text/plain', content);
    for (const kind of ['dragover', 'drop']) {
        const how = {dataTransfer: data, bubbles: true, cancelable: true};
        element.dispatchEvent(new DragEvent(kind, how));
    }
}"""


def test_a_document_is_dropped(visit: Watched) -> None:
    page = begin(visit)
    area = page.get_by_label("Text of the document")
    page.evaluate(DROP, [area.element_handle(), "notes.md", "# Notes"])
    page.get_by_label("Document", exact=True).get_by_text("notes.md").wait_for()
    assert area.input_value() == "# Notes"
    page.evaluate(DROP, [area.element_handle(), "notes.png", "x"])
    page.get_by_text("not .png").wait_for()
    page.evaluate(DROP, [area.element_handle(), "", "dropped text"])
    page.wait_for_function(
        "() => document.querySelector('.document-text').value === 'dropped text'"
    )


def test_what_the_server_refuses_is_said(visit: Watched) -> None:
    visit.lenient = True
    page = begin(visit)
    page.get_by_label("Text of the document").fill("word " * 4000)
    ask(page, 1, "Is it long?", "yes", "no")
    page.get_by_role("button", name="Ask", exact=True).last.click()
    page.get_by_role("alert").get_by_text("context").wait_for()
    page.get_by_label("Text of the document").fill(TEXT)
    assert page.get_by_role("alert").count() == 0
    page.get_by_role("button", name="Ask", exact=True).last.click()
    assert shown(question(page, 1)).keys() == {"yes", "no"}


def test_questions_that_cannot_be_asked_are_not(visit: Watched) -> None:
    page = begin(visit)
    page.get_by_label("Text of the document").fill(TEXT)
    button = question(page, 1).get_by_role("button", name="Ask", exact=True)
    assert page.get_by_text("Write a question first.").count() == 0  # nobody has begun
    for text, options, why in (
        ("", ("a", "b"), "Write a question first."),
        ("Q?", ("a", "a"), "Two of the answers are the same."),
        ("Q?", ("a", ""), "Give at least two answers."),
    ):
        ask(page, 1, text, *options)
        assert button.is_disabled(), (text, options)
        question(page, 1).get_by_text(why).wait_for()
    ask(page, 1, "Q?", "a", "b")
    assert button.is_enabled()
    assert page.get_by_text("Write a question first").count() == 0
    page.get_by_label("Text of the document").fill("")
    question(page, 1).get_by_text("Add a document first.").wait_for()


def test_a_text_written_over_is_no_file_any_more(visit: Watched) -> None:
    page = begin(visit)
    for name, content in (("a.txt", "One."), ("b.txt", "b\0")):
        file: Any = {"name": name, "mimeType": "", "buffer": content.encode()}
        page.get_by_label("Document file").set_input_files([file])
    part = page.get_by_label("Document", exact=True)
    part.get_by_text("b.txt: this is not text").wait_for()
    assert part.get_by_text("a.txt").is_visible()
    page.get_by_label("Text of the document").fill("Two.")
    assert part.get_by_role("alert").count() == 0
    assert part.get_by_text("a.txt").count() == 0


def test_markup_is_text(visit: Watched) -> None:
    page = begin(visit)
    evil = "<img src=x onerror=window.hit=1>"
    page.get_by_label("Text of the document").fill(evil)
    ask(page, 1, evil, evil, "no")
    question(page, 1).get_by_role("button", name="Ask", exact=True).click()
    assert evil in shown(question(page, 1))
    assert page.evaluate("() => window.hit") is None
    assert page.locator("main img").count() == 0


def test_a_store_of_another_form_is_left_aside(visit: Watched) -> None:
    page = begin(visit)
    stored = json.dumps({"questions": [{"question": 3}]})
    page.evaluate(
        """stored => {
            localStorage.setItem('colibri.brio', stored);
            sessionStorage.setItem('colibri.document', '{');
        }""",
        stored,
    )
    page.reload()
    assert question(page, 1).get_by_label("Answer 1", exact=True).input_value() == "yes"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_a_phone(browser: Browser, server: Running, scheme: Any) -> None:
    size: Any = {"width": 390, "height": 844}
    options: Any = {"viewport": size, "is_mobile": True, "has_touch": True}
    with watched(browser, server.url, color_scheme=scheme, **options) as visited:
        page = visited.open("/#/brio")
        page.get_by_label("Text of the document").fill(TEXT)
        ask(page, 1, "Whom did the fox meet?", "an owl", "a teacher", "nobody at all of them")
        question(page, 1).get_by_role("button", name="Ask", exact=True).click()
        shown(question(page, 1))
        assert page.evaluate("() => document.documentElement.scrollWidth") <= 390
        assert accessibility(page) == []
        visited.check()

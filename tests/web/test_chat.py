"""Chat, as a person uses it: with the embedded model, and with answers written beforehand."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from server_kit import Running, Unhurried, serving
from web_kit import Watched, accessibility, needs_browser, typed, watched

from colibri import LLM
from colibri.engine.request import Failed, PrefillProgress, Token
from colibri.errors import QueueFullError, ReadError

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

pytestmark = needs_browser()

FIRST = "Tell me a story about a fox."


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


def test_an_answer_with_its_figures(page: Page) -> None:
    page.get_by_text("Talk with demo").wait_for()
    say(page, FIRST)
    await_answers(page)
    assert len(answers(page).locator(".prose").inner_text()) > 40
    figures = answers(page).locator(".stats").inner_text()
    assert re.search(r"[\d.]+ tok/s.*first token [\d.]+ m?s.*\d+ tokens", figures, re.S), figures
    assert page.get_by_role("heading", level=1).inner_text() == FIRST
    page.get_by_text(re.compile(r"^[\d,]+ of 2,048 tokens of context$")).wait_for()
    assert accessibility(page) == []


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
    page.get_by_role("button", name="All as at first").click()
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
        page.get_by_label("Stop before").fill("END\nFIN")
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
        page.get_by_label("Ask for the probability").uncheck()
        page.get_by_role("button", name="Answer again").click()
        page.get_by_text("2 / 2").wait_for()
        await_answers(page)
        assert model.submitted[1].params.logprobs is None


def test_what_is_out_of_bounds_is_said_and_not_sent(page: Page) -> None:
    page.get_by_role("button", name="Settings").click()
    for label, value, says in (
        ("Temperature", "warm", "from 0 to 2"),
        ("Top k", "1.5", "a whole number"),
        ("Seed", "-1", "from 0 to 9007199254740991"),
    ):
        set_number(page, label, value)
        page.get_by_text(says).wait_for()
    page.get_by_label("Tools").fill("[{]")
    page.get_by_text("this is no JSON").wait_for()
    say(page, FIRST)
    await_answers(page)
    assert len(answers(page).locator(".prose").inner_text()) > 20


MARKDOWN = """# Title

Some **bold** text with `code` and [a link](https://example.org/x).

```python
print("<b>")
```

| a | b |
|---|---|
| 1 | 2 |

- one
- two
"""


def test_markdown_and_code_to_copy(browser: Browser, llm: LLM) -> None:
    with scripted(browser, llm, typed(llm, MARKDOWN)) as (page, _):
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        say(page, FIRST)
        await_answers(page)
        prose = answers(page).locator(".prose")
        assert prose.locator("h1").inner_text() == "Title"
        assert prose.locator("strong").inner_text() == "bold"
        assert prose.locator("td").all_inner_texts() == ["1", "2"]
        assert prose.locator("li").all_inner_texts() == ["one", "two"]
        link = prose.get_by_role("link")
        assert link.get_attribute("href") == "https://example.org/x"
        assert "noopener" in (link.get_attribute("rel") or "")
        assert prose.locator(".code-head").inner_text().startswith("python")
        page.get_by_role("button", name="Copy code").click()
        assert page.evaluate("navigator.clipboard.readText()") == 'print("<b>")'
        page.get_by_role("button", name="Copied").wait_for()
        assert accessibility(page) == []


EVIL = [
    "<img src=x onerror=\"window.hit='img'\">",
    "<script>window.hit='script'</script>",
    "<svg onload=\"window.hit='svg'\"><a xlink:href=\"javascript:window.hit='x'\">x</a></svg>",
    "<iframe srcdoc=\"<script>parent.hit='frame'</script>\"></iframe>",
    "[press](javascript:window.hit='link')",
    "[press](JaVaScRiPt&colon;window.hit='link')",
    "[press](data:text/html,<script>window.hit=1</script>)",
    "![pixel](https://tracker.example/p.png)",
    "<style>body{display:none}</style>",
    '<form action="https://evil.example"><input name=q><button>go</button></form>',
    '<a href="https://ok.example" target="_self" onclick="window.hit=1" id="app">out</a>',
    "<details open ontoggle=\"window.hit='toggle'\"><summary>x</summary></details>",
    "<math><mtext><table><mglyph><style><!--</style><img src=x onerror=window.hit='m'>",
    '<div style="position:fixed;inset:0;background:red" class="banner bad">cover</div>',
    '<base href="https://evil.example/"><meta http-equiv="refresh" content="0;url=//evil.example">',
    "```x\" onmouseover=\"window.hit='fence'\ncode\n```",
]
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


@pytest.mark.parametrize("shaded", [False, True], ids=["plain", "shaded"])
def test_nothing_a_model_writes_runs_or_calls(browser: Browser, llm: LLM, shaded: bool) -> None:
    with scripted(browser, llm, typed(llm, "\n\n".join(EVIL))) as (page, _):
        if shaded:
            page.get_by_role("button", name="Shade doubt").click()
        say(page, "<img src=x onerror=window.hit='title'>")
        await_answers(page)
        page.wait_for_timeout(300)
        assert page.evaluate(HARMLESS) == []
        prose = answers(page).locator(".prose")
        image = prose.get_by_role("link", name="pixel")
        assert image.get_attribute("href") == "https://tracker.example/p.png"
        for link in prose.get_by_role("link").all():
            assert link.get_attribute("target") == "_blank"
            assert "noreferrer" in (link.get_attribute("rel") or "")
        assert "onerror" in prose.inner_text()  # what it wrote is to be seen
        page.reload()
        await_answers(page)
        assert page.evaluate(HARMLESS) == []
        assert page.title() == "Chat · colibri"


def test_doubts_are_the_models_own(browser: Browser, llm: LLM) -> None:
    text = "The **quick** brown fox, `jumps` over [the lazy](https://example.org/the) dog."
    with scripted(browser, llm, typed(llm, text)) as (page, _):
        say(page, FIRST)
        await_answers(page)
        assert page.locator(".token").count() == 0
        page.get_by_role("button", name="Shade doubt").click()
        assert llm.tokenizer is not None
        ids = llm.tokenizer.encode(text, add_special_tokens=False)
        pieces = [llm.tokenizer.decode([i], skip_special_tokens=False) for i in ids]
        found = page.evaluate(
            """() => [...document.querySelectorAll('.token')].map((token) => [
                Number(token.dataset.token), token.textContent, token.hasAttribute('style')])"""
        )
        assert len(found) > 10
        shown = "".join(part for _, part, _ in found)
        assert shown.replace(" ", "") == "Thequickbrownfox,jumpsoverthelazydog."
        for index, part, doubted in found:
            assert part.strip() in pieces[index], (part, pieces[index])
            assert doubted == (index % 3 == 2)
        page.locator(".token[style]").first.hover()
        card = page.get_by_role("tooltip")
        assert "30.1 %" in card.inner_text()
        assert "22.3 %" in card.inner_text()
        assert "fox" in card.inner_text()
        page.mouse.move(5, 5)
        card.wait_for(state="detached")
        page.locator(".token").first.focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowRight")
        card.wait_for()
        page.keyboard.press("Escape")
        card.wait_for(state="detached")
        assert accessibility(page) == []


CALLS = (
    "<tool_call>weather<arg_key>city</arg_key>"
    "<arg_value><img src=x onerror=window.hit=1></arg_value></tool_call>"
)
TOOL = {"name": "weather", "parameters": {"properties": {"city": {"type": "string"}}}}


def test_thinking_is_folded_and_tools_are_shown_and_answered(
    browser: Browser, thinker: LLM
) -> None:
    text = f"Is it <script>window.hit=1</script> Oslo?</think>Let me look.{CALLS}"
    with scripted(browser, thinker, typed(thinker, text)) as (page, model):
        page.get_by_role("button", name="Settings").click()
        page.get_by_label("Tools").fill(json.dumps(TOOL))
        say(page, "How is the weather?")
        await_answers(page)
        thought = page.get_by_text("Thought")
        thought.wait_for()
        assert not page.locator(".thinking-text").is_visible()
        thought.click()
        assert "Oslo?" in page.locator(".thinking-text").inner_text()
        call = page.get_by_label("Tool call: weather")
        assert '"city": "<img src=x onerror=window.hit=1>"' in call.locator("pre").inner_text()
        assert page.evaluate(HARMLESS) == []
        call.get_by_label("Result").fill("It is <b>sunny</b>.")
        assert accessibility(page) == []
        page.get_by_role("button", name="Send results").click()
        await_answers(page, 2)
        assert "It is <b>sunny</b>." in page.get_by_label("Tool result").inner_text()
        assert thinker.tokenizer is not None
        prompt = thinker.tokenizer.decode(model.submitted[1].prompt_ids, skip_special_tokens=False)
        assert "It is <b>sunny</b>." in prompt
        assert model.submitted[0].params.max_tokens == model.submitted[1].params.max_tokens


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
        page.get_by_text("Stopped").wait_for()
        assert "word word" in answers(page).inner_text()
        page.wait_for_timeout(200)
        assert model.submitted[0].cancelled
        page.reload()
        await_answers(page)
        assert "word word" in answers(page).inner_text()


def test_leaving_in_the_middle_keeps_what_was_written(browser: Browser, llm: LLM) -> None:
    with scripted(browser, llm, typed(llm, "word " * 400, pace=0.05)) as (page, _):
        say(page, FIRST)
        page.get_by_text("word word").wait_for()
        page.wait_for_timeout(2_600)
        page.reload()
        await_answers(page)
        assert "word word" in answers(page).inner_text()
        page.get_by_text("Stopped").wait_for()


def test_two_conversations_are_answered_at_once(browser: Browser, llm: LLM) -> None:
    with scripted(browser, llm, typed(llm, "word " * 60, pace=0.05)) as (page, _):
        say(page, "The first.")
        page.get_by_text("word word").wait_for()
        page.get_by_role("link", name="New conversation").click()
        say(page, "The second.")
        page.get_by_text("word word").wait_for()
        page.get_by_role("link", name=re.compile("^The first")).click()
        await_answers(page)
        assert answers(page).inner_text().count("word") == 60
        page.get_by_role("link", name=re.compile("^The second")).click()
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


def test_export_import_and_delete(browser: Browser, llm: LLM, tmp_path: Path) -> None:
    with scripted(browser, llm, typed(llm, "An **answer**.")) as (page, _):
        say(page, "A / question: <x>?")
        await_answers(page)
        page.get_by_label("Export", exact=True).click()
        with page.expect_download() as saving:
            page.get_by_role("button", name="Markdown").click()
        written = Path(saving.value.path()).read_text(encoding="utf-8")
        assert saving.value.suggested_filename == "A-question-x-.md"
        assert "## You\n\nA / question: <x>?" in written
        assert "## Model\n\nAn **answer**." in written
        with page.expect_download() as saving:
            page.get_by_role("button", name="Export all").click()
        kept = tmp_path / "all.json"
        saving.value.save_as(kept)
        assert len(json.loads(kept.read_text(encoding="utf-8"))["conversations"]) == 1
        page.get_by_role("link", name=re.compile("^A / question")).hover()
        page.get_by_role("button", name=re.compile("^Delete A")).click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_role("button", name="Keep it").click()
        page.get_by_role("link", name=re.compile("^A / question")).hover()
        page.get_by_role("button", name=re.compile("^Delete A")).click()
        dialog.get_by_role("button", name="Delete").click()
        page.get_by_text("Conversations stay in this browser.").first.wait_for()
        page.reload()
        page.get_by_text("Talk with demo").wait_for()
        assert page.get_by_role("link", name=re.compile("^A / question")).count() == 0
        page.get_by_label("File to import").set_input_files(kept)
        page.get_by_text("1 imported").wait_for()
        page.get_by_role("link", name=re.compile("^A / question")).click()
        await_answers(page)
        assert answers(page).locator("strong").inner_text() == "answer"


NODE = {"id": "aa", "parent": "root", "role": "user", "content": "Hi"}
FORM = {"version": 1, "id": "x", "title": "T", "system": "", "nodes": {"aa": NODE}}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{", "this is no JSON"),
        ("[]", "this is no export"),
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


def test_a_browser_that_keeps_nothing_says_so(visit: Watched) -> None:
    visit.context.add_init_script("indexedDB.open = () => { throw new Error('forbidden') };")
    page = visit.open()
    page.get_by_text("conversations end with the tab").wait_for()
    say(page, FIRST)
    await_answers(page)


def test_a_reader_is_not_dragged_to_the_end(browser: Browser, llm: LLM) -> None:
    with scripted(browser, llm, typed(llm, "word\n\n" * 150, pace=0.02)) as (page, _):
        say(page, FIRST)
        to_end = page.get_by_role("button", name="To the end")
        thread = page.get_by_role("log")
        page.wait_for_function("() => document.querySelector('.thread').scrollTop > 300")
        thread.evaluate("element => element.scrollTo(0, 0)")
        to_end.wait_for()
        page.wait_for_timeout(300)
        assert thread.evaluate("element => element.scrollTop") == 0
        to_end.click()
        await_answers(page)
        left = thread.evaluate("e => e.scrollHeight - e.scrollTop - e.clientHeight")
        assert left < 5


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_a_phone(browser: Browser, server: Running, scheme: Any) -> None:
    size: Any = {"width": 390, "height": 844}
    options: Any = {"viewport": size, "is_mobile": True, "has_touch": True}
    with watched(browser, server.url, color_scheme=scheme, **options) as visited:
        page = visited.open()
        say(page, FIRST)
        await_answers(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        page.get_by_role("button", name="Conversations").click()
        page.get_by_role("link", name=re.compile(f"^{re.escape(FIRST)}")).wait_for()
        assert accessibility(page) == []
        page.get_by_role("link", name="New conversation").click()
        page.get_by_text("Talk with demo").wait_for()
        page.get_by_role("button", name="Settings").click()
        page.get_by_label("System prompt").fill("Short.")
        assert accessibility(page) == []
        visited.check()

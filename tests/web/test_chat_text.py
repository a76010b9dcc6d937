"""What a model writes as it is shown: markup, doubts, thinking, tools; nothing of it runs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from chatpage_kit import FIRST, HARMLESS, answers, await_answers, say, scripted
from web_kit import accessibility, needs_browser, typed

from colibri import LLM

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = needs_browser()


MARKDOWN = """# Title

Some **bold** text with `code` and [a link](https://example.org/x).

```python
print("<b>")
```

| day | what it will be like |
|-----|---:|
| Wednesday | sunny, with some clouds in the afternoon and rain in the night |

- [x] one
- [ ] two

7. seven
"""


def test_markdown_and_code_to_copy(browser: Browser, llm: LLM) -> None:
    with scripted(browser, llm, typed(llm, MARKDOWN)) as (page, _):
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        say(page, FIRST)
        await_answers(page)
        prose = answers(page).locator(".prose")
        assert prose.locator("h1").inner_text() == "Title"
        assert prose.locator("strong").inner_text() == "bold"
        day, what = prose.locator("td").all()
        assert what.inner_text().startswith("sunny, ")
        assert what.evaluate("cell => getComputedStyle(cell).textAlign").endswith("right")
        items = [text.strip() for text in prose.locator("li").all_inner_texts()]
        assert items == ["one", "two", "seven"]
        boxes = prose.get_by_role("checkbox")
        assert [(box.is_checked(), box.is_disabled()) for box in boxes.all()] == [
            (True, True),
            (False, True),
        ]
        assert prose.locator("ol").get_attribute("start") == "7"
        link = prose.get_by_role("link")
        assert link.get_attribute("href") == "https://example.org/x"
        assert "noopener" in (link.get_attribute("rel") or "")
        assert prose.locator(".code-head").inner_text().startswith("python")
        page.get_by_role("button", name="Copy code").click()
        assert page.evaluate("navigator.clipboard.readText()") == 'print("<b>")'
        page.get_by_role("button", name="Copied").wait_for()
        assert accessibility(page) == []
        page.set_viewport_size({"width": 390, "height": 844})
        lines = """cell => {
            const range = document.createRange();
            range.selectNodeContents(cell);
            return range.getClientRects().length;
        }"""
        assert what.evaluate(lines) > 1
        assert day.evaluate(lines) == 1  # no word of a table is broken


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
        page.mouse.move(5, 5)
        card.wait_for(state="detached")
        page.locator(".token").first.focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowRight")
        card.wait_for()
        page.keyboard.press("Escape")
        card.wait_for(state="detached")
        assert accessibility(page) == []


def test_tokens_are_reached_by_keys_where_the_first_is_markup(browser: Browser, llm: LLM) -> None:
    with scripted(browser, llm, typed(llm, "**Bold** begins this answer.\n\nAnd ends.")) as (
        page,
        _,
    ):
        page.get_by_role("button", name="Shade doubt").click()
        say(page, FIRST)
        await_answers(page)
        assert page.locator(".token").first.get_attribute("data-token") != "0"
        assert page.locator('.token[tabindex="0"]').count() == 1
        page.locator('.token[tabindex="0"]').focus()
        page.keyboard.press("ArrowRight")
        card = page.get_by_role("tooltip")
        card.wait_for()
        focused = page.locator(".token:focus")
        assert focused.get_attribute("aria-describedby") == card.get_attribute("id")
        # Tab comes back to where one was.
        assert focused.get_attribute("tabindex") == "0"
        assert page.locator('.token[tabindex="0"]').count() == 1


def test_an_answer_that_is_slow_to_show_is_shown_more_rarely(browser: Browser, llm: LLM) -> None:
    # Each time takes a tenth of a second: two thirds of the two that it comes in stay for a person.
    with scripted(browser, llm, typed(llm, "word " * 100, pace=0.02)) as (page, _):
        page.evaluate(
            """() => {
                window.shown = 0;
                new MutationObserver(changes => {
                    if (!changes.some(({ target }) => target.matches?.('.block'))) return;
                    window.shown += 1;
                    const until = performance.now() + 100;
                    while (performance.now() < until);
                }).observe(document.body, { childList: true, subtree: true });
            }"""
        )
        say(page, FIRST)
        await_answers(page)
        assert answers(page).inner_text().split().count("word") == 100
        assert 2 <= page.evaluate("() => window.shown") <= 9


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

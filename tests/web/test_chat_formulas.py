"""Code in colours and formulas, drawn by libraries that come when they are needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from chatpage_kit import FIRST, answers, await_answers, say, scripted
from web_kit import accessibility, dressed, needs_browser, typed

from colibri import LLM

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = needs_browser()

CODE = """Here:

```python
def f(x):
    # <b>half</b>
    return "s" + 7
```

```nothing-known
def f(x)
```
"""
FORMULAS = r"""The root \(\sqrt{x}\) and $a_1 \le b$ cost $5 or $6, then

$$
\sum_{n=1}^{9} \frac{n}{2}
$$

\[ x < y \]

and `$c$`, $\href{javascript:alert(1)}{x}$, $\frac{1$.
"""


def vendored(page: Page) -> list[str]:
    """Which of both libraries were fetched."""
    script = """() => performance.getEntriesByType('resource')
        .map(entry => entry.name).filter(name => /vendor\\/(highlight|temml)\\.js$/.test(name))
        .map(name => name.replace(/.*\\//, ''))"""
    found: list[str] = page.evaluate(script)
    return sorted(found)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_code_has_colours_and_is_still_the_text(browser: Browser, llm: LLM, scheme: str) -> None:
    with scripted(browser, llm, typed(llm, CODE)) as (page, _):
        dressed(page, scheme)  # type: ignore[arg-type]
        say(page, FIRST)
        await_answers(page)
        code = answers(page).locator("pre code")
        code.first.locator(".hljs-keyword").first.wait_for()
        assert code.first.inner_text() == CODE.split("```")[1].removeprefix("python\n")
        assert code.first.locator("b").count() == 0
        assert code.last.locator("span").count() == 0
        assert vendored(page) == ["highlight.js"]
        assert accessibility(page) == []


def test_formulas_are_drawn_and_prices_are_none(browser: Browser, llm: LLM) -> None:
    with scripted(browser, llm, typed(llm, FORMULAS)) as (page, _):
        say(page, FIRST)
        await_answers(page)
        prose = answers(page).locator(".prose")
        prose.locator("math").first.wait_for()
        assert prose.locator("math msqrt").count() == 1
        assert prose.locator("math munderover, math mfrac").count() == 2
        assert "cost $5 or $6, then" in prose.inner_text()
        assert prose.locator("code").first.inner_text() == "$c$"
        assert prose.locator("[style], [href], script").count() == 0
        assert r"\frac{1" in prose.inner_text()
        assert vendored(page) == ["temml.js"]
        assert accessibility(page) == []


def test_a_text_without_either_fetches_neither(browser: Browser, llm: LLM) -> None:
    with scripted(browser, llm, typed(llm, "Plain `code`, and $5.")) as (page, _):
        say(page, FIRST)
        await_answers(page)
        page.wait_for_timeout(200)
        assert vendored(page) == []


def test_with_doubts_shown_the_text_is_as_the_model_wrote_it(browser: Browser, llm: LLM) -> None:
    with scripted(browser, llm, typed(llm, r"So $x^2$ it is.")) as (page, _):
        say(page, FIRST)
        await_answers(page)
        answers(page).locator("math").wait_for()
        page.get_by_role("button", name="Shade doubt").click()
        answers(page).locator(".token").first.wait_for()
        assert answers(page).locator("math").count() == 0
        assert "x^2" in answers(page).locator(".prose").inner_text()

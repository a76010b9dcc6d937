"""Numbers stand with their nouns: 1 token, 2 tokens, in every place of the page."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import httpx2
import pytest
from server_kit import Running
from web_kit import Watched, needs_browser

import colibri

if TYPE_CHECKING:
    from playwright.sync_api import Page

STATIC = Path(colibri.__file__).parent / "web" / "static"
# `${count(n)} tokens` or `${list.length} tokens`: right for all numbers but one.
BLIND = re.compile(r"(?:\bcount\([^{}]*\)|\.length)\} (?!is\b|has\b|as\b|was\b|this\b)[a-z]+s\b")


def test_no_number_stands_beside_a_noun_that_does_not_heed_it() -> None:
    assert BLIND.search("`${count(n)} tokens`")
    assert BLIND.search("`in ${steps.length} layers`")
    sources = [path for path in STATIC.rglob("*.js") if "vendor" not in path.parts]
    assert len(sources) > 50
    found = {path.name: BLIND.findall(path.read_text("utf-8")) for path in sources}
    assert {name: hits for name, hits in found.items() if hits} == {}


@needs_browser()
@pytest.mark.parametrize(
    ("call", "text"),
    [
        ('plural(0, "token")', "0 tokens"),
        ('plural(1, "token")', "1 token"),
        ('plural(1234, "token")', "1,234 tokens"),
        ('plural(1, "miss", "misses")', "1 miss"),
        ('plural(2, "miss", "misses")', "2 misses"),
    ],
)
def test_the_one_helper(page: Page, call: str, text: str) -> None:
    helper = "const { plural } = await import('./static/lib/format.js')"
    assert page.evaluate(f"async () => {{ {helper}; return {call}; }}") == text


@needs_browser()
def test_a_model_that_read_one_token_says_one(visit: Watched, server: Running) -> None:
    told = httpx2.get(f"{server.url}/v1/colibri/model").json()
    told["usage"] |= {"tokens": 1, "selections": 1, "half_life_tokens": 1}
    told["machine"] |= {"threads": 1, "physical_cores": 1}
    page = visit.context.new_page()
    page.route("**/v1/colibri/model", lambda route: route.fulfill(json=told))
    page.goto(f"{visit.url}/#/model")
    said = page.get_by_label("Usage and pins")
    said.get_by_text("1 token counted, 1 selection; a selection loses").wait_for()
    assert "after 1 token." in said.inner_text()
    page.get_by_text("on 1 thread, 1 core", exact=False).wait_for()

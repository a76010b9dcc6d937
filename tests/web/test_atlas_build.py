"""Atlas of a model that has none: built from the page, beside everything else."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from live_kit import settle
from server_kit import Running, serving, slow_down
from web_kit import PHONE, Watched, accessibility, dressed, needs_browser, too_small, watched

from colibri import LLM, SamplingParams
from colibri.lab.atlas.file import NAME
from colibri.llm import embedded_model
from colibri.server.colibri import atlas

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = needs_browser()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("models") / "bare"
    shutil.copytree(embedded_model(), made)
    return made


@pytest.fixture(scope="module")
def model(folder: Path) -> Iterator[LLM]:
    with LLM(folder, ram="2GB", context=512) as llm:
        yield llm


@pytest.fixture
def bare(
    model: LLM, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Running]:
    """A server of a model that has no atlas, and few prompts to build one."""
    path = tmp_path / "prompts.json"
    names = ("law", "music", "code", "food")
    topics = [{"name": n, "prompts": [f"{n} is one thing", f"{n} is another"]} for n in names]
    path.write_text(json.dumps({"topics": topics}))
    monkeypatch.setattr(atlas, "own_prompts", lambda: path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (folder / NAME).unlink(missing_ok=True)
    with serving(model, page=True) as running:
        yield running


@pytest.fixture
def visit(browser: Browser, bare: Running) -> Iterator[Watched]:
    with watched(browser, bare.url, **PHONE) as visited:
        visited.lenient = True  # browsers say of a 404 that there was one
        yield visited
        visited.check()


@pytest.fixture
def page(visit: Watched) -> Page:
    page = visit.open("/#/atlas")
    page.get_by_text("This model has no atlas yet.").wait_for()
    return page


def begin(page: Page) -> None:
    page.get_by_role("button", name="Build the atlas").press("Enter")


def test_a_button_builds_it(page: Page, folder: Path) -> None:
    assert "coli atlas" not in page.locator("main").inner_text()
    assert accessibility(page) == []
    assert too_small(page) == []
    begin(page)
    page.get_by_text("4 topics").wait_for()
    page.get_by_role("heading", name="Topics").wait_for()
    assert (folder / NAME).is_file()
    page.goto(page.url.replace("#/atlas", "#/brain/1.1"))
    page.get_by_role("link", name="Show it in the atlas").wait_for()


def test_how_far_it_is_and_no_further(
    page: Page, model: LLM, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = sorted(path.name for path in folder.iterdir())
    slow_down(model, monkeypatch, 0.2)
    begin(page)
    page.get_by_text("Reading texts").wait_for()
    page.get_by_text("1 of 8 texts, about").wait_for()
    assert page.get_by_role("meter", name="Texts read").get_attribute("aria-valuenow") == "13"
    for scheme in ("light", "dark"):
        dressed(page, scheme)  # type: ignore[arg-type]
        assert accessibility(page) == []
    assert too_small(page) == []
    page.keyboard.press("Enter")  # Cancel has the focus
    offer = page.get_by_role("button", name="Build the atlas")
    offer.wait_for()
    page.wait_for_function("() => document.activeElement.textContent === 'Build the atlas'")
    assert page.get_by_role("alert").count() == 0
    assert sorted(path.name for path in folder.iterdir()) == before


def test_it_waits_for_answers(page: Page, model: LLM, monkeypatch: pytest.MonkeyPatch) -> None:
    slow_down(model, monkeypatch, 0.01)
    answer = model.stream("A cat", SamplingParams(max_tokens=400, ignore_eos=True))
    next(answer)
    begin(page)
    page.get_by_text("Waiting until no answer is being made").wait_for()
    answer.close()
    page.get_by_role("heading", name="Topics").wait_for()


def test_it_goes_on_while_other_pages_are_shown(
    page: Page, bare: Running, model: LLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow_down(model, monkeypatch, 0.03)
    begin(page)
    page.get_by_text("of 8 texts").wait_for()
    page.evaluate("() => { location.hash = '#/brain/1.1'; }")
    page.get_by_text("this model has no atlas yet").wait_for()
    assert bare.service.building
    page.get_by_role("link", name="Show it in the atlas").click()
    page.get_by_role("heading", name="Topics").wait_for()


def test_closing_the_tab_ends_it(
    page: Page, bare: Running, model: LLM, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow_down(model, monkeypatch, 0.2)
    begin(page)
    page.get_by_text("Reading texts").wait_for()
    page.close()
    settle(lambda: not bare.service.building)
    assert not (folder / NAME).exists()


def test_why_none_came_of_it(page: Page, bare: Running, folder: Path) -> None:
    (folder / NAME).mkdir()  # in the way
    try:
        begin(page)
        page.get_by_role("alert").get_by_text("there is a directory of that name").wait_for()
    finally:
        (folder / NAME).rmdir()
    begin(page)
    page.get_by_role("heading", name="Topics").wait_for()


def test_two_tabs_do_not_build_it_twice(
    visit: Watched, page: Page, model: LLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow_down(model, monkeypatch, 0.1)
    begin(page)
    page.get_by_text("Reading texts").wait_for()
    second = visit.open("/#/atlas")
    begin(second)
    second.get_by_role("alert").get_by_text("is being built already").wait_for()
    page.get_by_role("heading", name="Topics").wait_for()


def test_one_that_cannot_be_read_is_built_anew(visit: Watched, folder: Path) -> None:
    (folder / NAME).write_text("{}")
    page = visit.open("/#/atlas")
    page.get_by_text("no atlas of coli").wait_for()
    page.get_by_role("button", name="Build it anew").click()
    page.get_by_role("heading", name="Topics").wait_for()


def test_what_cannot_be_built_has_no_button(
    browser: Browser, folder: Path, bare: Running, model: LLM
) -> None:
    with (
        LLM(folder, ram="2GB", context=256, router="cache-aware") as llm,
        serving(llm, page=True) as running,
        watched(browser, running.url) as visited,
    ):
        visited.lenient = True
        page = visited.open("/#/atlas")
        page.get_by_text("an atlas is of the model's own routing").wait_for()
        assert page.locator("main").get_by_role("button").count() == 0
        visited.check()

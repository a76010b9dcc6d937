"""The page is well-formed, complete, and asks nobody for anything."""

import re
from html.parser import HTMLParser
from importlib.resources import files

import msgspec
import pytest

from colibri.lab import units
from colibri.lab.clock import PHASES
from colibri.lab.report import page

VOID = {"meta", "br", "link", "img", "input", "hr"}


class Checker(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open = []
        self.tags = []
        self.attributes = []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def html(results):
    return page(results)


def test_well_formed(html):
    checker = Checker()
    checker.feed(html)
    checker.close()
    assert checker.open == []
    assert checker.tags.count("svg") == 5


def test_self_contained(html):
    checker = Checker()
    checker.feed(html)
    assert not {"script", "link", "img", "iframe"} & set(checker.tags)
    names = {name for name, _ in checker.attributes}
    assert not names & {"src", "href", "onload", "onclick"}
    assert not re.search(r"https?://|url\(|@import", html)


def test_dark_and_light_and_every_colour_is_defined(html):
    assert "prefers-color-scheme: dark" in html
    light, dark = html.split("prefers-color-scheme: dark", 1)
    for name in set(re.findall(r"var\((--[a-z_]+)\)", html)):
        assert f"{name}:" in light
        assert f"{name}:" in dark


def test_what_comes_from_files_is_escaped(results):
    name = "<script>alert(1)</script>"
    evil = msgspec.structs.replace(
        results, model=msgspec.structs.replace(results.model, name=name, load_line=name)
    )
    assert "<script" not in page(evil)
    assert "&lt;script&gt;" in page(evil)


def test_a_model_that_read_nothing_has_a_page_too(results):
    hardware = msgspec.structs.replace(results.hardware, disk_bandwidth=None, disk_direct=None)
    layers = [
        msgspec.structs.replace(layer, hits=0.0, misses=0.0, missed_bytes=0.0)
        for layer in results.layers
    ]
    html = page(msgspec.structs.replace(results, hardware=hardware, layers=layers))
    assert "Timeline" in html


def test_phases_have_the_colours_of_the_dashboard(html):
    """In light and in dark: who looks from one to the other takes them for the same."""
    web = files("colibri") / "web" / "static"
    named = re.findall(
        r'id: "(\w+)", name: [^,]+, colour: "(--[\w-]+)"',
        (web / "pages" / "profile" / "phases.js").read_text(encoding="utf-8"),
    )
    drawn = {phase: colour for phase, colour in named if phase != "between"}
    assert drawn.keys() == set(PHASES)
    tokens = (web / "css" / "tokens.css").read_text(encoding="utf-8")
    grounds = zip(html.split("@media", 1), tokens.split('[data-theme="dark"]', 1), strict=True)
    for report, dashboard in grounds:
        for phase, colour in drawn.items():
            wanted = re.search(rf"{colour}: ([^;]+);", dashboard)
            assert f"--{phase}: {wanted[1]};" in report


def test_small_times_have_the_same_unit_everywhere():
    assert units.time(12.34e-6) == "12.3 \u00b5s"

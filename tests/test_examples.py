"""What the documents show is run: Python blocks on the embedded model, commands on a tiny one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from colibri import LLM
from scripts import reference

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
# Of other pages the blocks need a server, or a model that calls tools.
RUN = ["README.md", "docs/python.md", "docs/serving.md", "docs/structure.md"]


def python_of(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_in_documents_is_python(page: Path) -> None:
    for block in python_of(page):
        compile(block, str(page), "exec")


@pytest.fixture
def names() -> Iterator[dict[str, Any]]:
    """What a page's blocks may use that they do not define."""
    with LLM() as llm:
        yield {"llm": llm}


@pytest.mark.parametrize("page", RUN)
def test_python_in_documents_runs(
    page: str, names: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    for block in python_of(ROOT / page):
        exec(compile(block, page, "exec"), names)
    out = capsys.readouterr().out
    if page in ("README.md", "docs/python.md"):
        assert "Paris" in out


def test_every_public_method_is_in_the_reference() -> None:
    page = (ROOT / "docs/python.md").read_text("utf-8")
    public = {name for name in vars(LLM) if not name.startswith("_")}
    assert set(reference.INNER) < public
    for name in public:
        assert (f"#### `{name}`" in page) == (name not in reference.INNER)


def test_what_has_no_docstring_is_not_shown_without_a_word() -> None:
    with pytest.raises(ValueError, match=r"ChatRequest\.tools has no docstring"):
        list(reference._class_text("colibri.text.chat", "ChatRequest"))

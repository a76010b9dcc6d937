"""What the documents name exists: flags, variables, paths and classes between backticks."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from colibri.config import OTHER_VARIABLES, SERVER_SETTINGS, SETTINGS
from colibri.config.upstream import known_names

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
_CODE = ("src", "csrc", "scripts", "tests", "benchmarks", "contrib")
_SPAN = re.compile(r"`([^`\n]+)`")
_FLAG = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]+")
_VARIABLE = re.compile(r"\bCOLI_[A-Z_]+\b")
_PATH = re.compile(r"[\w./-]+/[\w.-]+\.(?:py|cpp|h|md|js|toml|json)|(?:[\w.-]+/)+")
_CLASS = re.compile(r"\b(?:[A-Z][a-z0-9]+){2,}\b")
_OTHERS = {
    "--disable-gpu",  # chromium's
    "colibri/config.toml",  # a user's
}


@cache
def files() -> frozenset[str]:
    tops = [ROOT / top for top in (*_CODE, "docs")]
    found = [*tops, *(path for top in tops for path in top.rglob("*"))]
    return frozenset("/" + str(path.relative_to(ROOT)) for path in found)


@cache
def code() -> str:
    kinds = (".py", ".cpp", ".h", ".js", ".service")
    found = (path for top in _CODE for path in (ROOT / top).rglob("*") if path.suffix in kinds)
    own = "".join(path.read_text("utf-8") for path in found if path != Path(__file__))
    return own + "".join(setting.flag + "\n" for setting in (*SETTINGS, *SERVER_SETTINGS))


@cache
def variables() -> set[str]:
    ours = {setting.env for setting in (*SETTINGS, *SERVER_SETTINGS)}
    return ours | {name for name, _ in OTHER_VARIABLES} | set(known_names())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_names_exists(page: Path) -> None:
    missing = []
    for span in _SPAN.findall(page.read_text("utf-8")):
        missing += [flag for flag in _FLAG.findall(span) if not _in_code(flag)]
        missing += [name for name in _VARIABLE.findall(span) if name not in variables()]
        missing += [name for name in _CLASS.findall(span) if not _in_code(name)]
        if _PATH.fullmatch(span) and not any(f.endswith("/" + span.rstrip("/")) for f in files()):
            missing.append(span)
    assert [name for name in missing if name not in _OTHERS] == []


def _in_code(name: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", code()) is not None

"""What the dashboard uses of others is what was locked."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from scripts import vendor


def test_vendored_files_are_as_locked() -> None:
    assert vendor.problems() == []


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for folder in (vendor.PAGE, vendor.TESTS):
        shutil.copytree(vendor.ROOT / folder, tmp_path / folder)
    return tmp_path


def test_a_changed_a_missing_and_a_stray_file_are_told(copy: Path) -> None:
    page = copy / vendor.PAGE
    with (page / "htm.js").open("a") as file:
        file.write(" ")
    (page / "LICENSE-preact.txt").unlink()
    (page / "extra.js").write_text("")
    found = [line.removeprefix(f"{vendor.PAGE}/") for line in vendor.problems(copy)]
    assert found == [
        "extra.js: not in vendor.json",
        "LICENSE-preact.txt: missing",
        "htm.js: not the file whose hash is in vendor.json",
    ]


def test_a_module_that_needs_what_is_not_here_is_refused() -> None:
    package = vendor.Package("x", "1", "MIT", {})
    made = vendor.adapted(b'import{h}from"preact";\n//# sourceMappingURL=x.map\n', package, "x.js")
    assert made == b'import{h}from"./preact.js";\n'
    with pytest.raises(SystemExit, match="'react', which is not vendored"):
        vendor.adapted(b'import r from "react"', package, "x.js")

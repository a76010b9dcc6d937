"""B098: whatever command it is, what is no model is named, and nothing else is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

COMMANDS = {
    "run": ("run", "hi", "--model", "{}"),
    "chat": ("chat", "--model", "{}"),
    "convert": ("convert", "{}", "{}-out"),
    "info": ("info", "{}"),
    "usage": ("usage", "show", "{}"),
    "plan": ("plan", "{}"),
    "mirror": ("mirror", "plan", "{}-copy", "--model", "{}"),
    "tune": ("tune", "{}"),
    "verify": ("verify", "{}", "--against", "{}-source"),
    "bench": ("bench", "--model", "{}"),
}


@pytest.mark.parametrize("kind", ["missing", "empty", "file"])
@pytest.mark.parametrize("name", COMMANDS)
def test_what_is_no_model_is_named(coli: Any, tmp_path: Path, name: str, kind: str) -> None:
    model = tmp_path / "model"
    if kind == "empty":
        model.mkdir()
    elif kind == "file":
        model.write_text("x")
    outcome = coli(*(word.format(model) for word in COMMANDS[name]))
    assert outcome.code in (2, 4)
    assert outcome.out == ""
    (line,) = outcome.err.splitlines()
    assert line.startswith(f"coli: error: {model}")
    assert sorted(p.name for p in tmp_path.iterdir()) == ([] if kind == "missing" else ["model"])

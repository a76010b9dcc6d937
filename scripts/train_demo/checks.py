"""Scoring of an answer. Code is run: a query against filled tables, a function on its examples."""

from __future__ import annotations

import re
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import Any

from scripts.train_demo.chat.code import TABLES
from scripts.train_demo.chat.words import COLOURS, HELD_NAMES, NAMES

_SECONDS = 10


def _source(answer: str, language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", answer, re.DOTALL)
    return found.group(1) if found else answer


def _runs(source: str, calls: list[Any]) -> bool:
    """Runs the first function of `source` in a bare interpreter on every (argument, result)."""
    function = re.search(r"def (\w+)", source)
    if function is None:
        return False
    tests = "\n".join(f"assert {function.group(1)}({a!r}) == {result!r}" for a, result in calls)
    with tempfile.TemporaryDirectory() as empty:
        try:
            done = subprocess.run(
                [sys.executable, "-I", "-c", f"{source}\n{tests}"],
                cwd=empty,
                capture_output=True,
                timeout=_SECONDS,
                check=False,
            )
        except (subprocess.TimeoutExpired, ValueError):  # ValueError: a NUL in the source
            return False
    return done.returncode == 0


def _filled() -> sqlite3.Connection:
    database = sqlite3.connect(":memory:")
    for table, (texts, numbers) in TABLES.items():
        database.execute(f"CREATE TABLE {table} ({', '.join([*texts, *numbers])})")
        for i in range(40):
            row: list[str | int] = [COLOURS[(i + j) % len(COLOURS)] for j in range(len(texts))]
            row += [(37 * i + 11 * j) % 1000 for j in range(len(numbers))]
            marks = ", ".join("?" * len(row))
            database.execute(f"INSERT INTO {table} VALUES ({marks})", row)
    return database


def _rows(query: str) -> list[Any] | None:
    database = _filled()
    try:
        return database.execute(query).fetchall()
    except (sqlite3.Error, sqlite3.Warning):
        return None
    finally:
        database.close()


def _same_rows(answer: str, query: str) -> bool:
    rows = _rows(_source(answer, "sql"))
    return rows is not None and rows == _rows(query)


def _last_number(answer: str, value: int) -> bool:
    numbers = re.findall(r"\d+", answer)
    return bool(numbers) and int(numbers[-1]) == value


def _story(answer: str, wanted: list[str]) -> bool:
    """Long enough, about what was asked, and about nobody else."""
    strangers = {w for w in re.findall(r"[A-Z]\w+", answer) if w in NAMES + HELD_NAMES}
    return len(answer) >= 120 and all(w in answer for w in wanted) and strangers <= set(wanted)


_CHECKS: dict[str, Callable[[str, Any], bool]] = {
    "contains": lambda answer, value: value in answer,
    "exact": lambda answer, value: answer == value,
    "number": _last_number,
    "story": _story,
    "python": lambda answer, calls: _runs(_source(answer, "python"), calls),
    "sql": _same_rows,
}


def score(answer: str, check: dict[str, Any]) -> bool:
    """Whether the answer is right; `check` is the held-out prompt's {"kind", "value"}."""
    return _CHECKS[check["kind"]](answer.strip(), check["value"])

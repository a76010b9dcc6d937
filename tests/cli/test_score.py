"""`coli score`, with the embedded model."""

import json
from pathlib import Path
from typing import Any

import pytest


def test_a_table_and_facts(coli: Any) -> None:
    ran = coli("score", "yes", "no", "--question", "Is the sky blue?")
    assert ran.code == 0
    head, first, second, entropy = ran.out.splitlines()
    assert head.split() == ["p", "log", "p", "a", "token", "tokens", "option"]
    assert [first.split()[-1], second.split()[-1]] == ["yes", "no"]
    assert [line[0] for line in (first, second)].count("*") == 1
    assert entropy.startswith("entropy 0.")
    assert " read, " in ran.err


def test_json_of_a_state_and_a_question(coli: Any, tmp_path: Path) -> None:
    state = tmp_path / "state.txt"
    state.write_text("The sky is blue. " * 9)
    ran = coli(
        "score", "Yes.", "No.", "--state", str(state), "--json", "-q", "--question", "Is it?"
    )
    found = json.loads(ran.out)
    assert [choice["option"] for choice in found["choices"]] == ["Yes.", "No."]
    assert found["answer"] == max(found["choices"], key=lambda choice: choice["p"])["option"]
    assert found["prompt_tokens"] > 30
    piped = coli("score", "Yes.", "No.", "--state", "-", "--json", "-q", "--question", "Is it?",
                 stdin=state.read_bytes())  # fmt: skip
    assert json.loads(piped.out) == found
    raw = coli("score", " yes", " no", "--raw", "--question", "Is it?", "--json", "-q")
    assert json.loads(raw.out)["prompt_tokens"] < 10


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["a", "b"], "no question"),
        (["a", "--question", "x"], "1 option; 2 to 64"),
        (["a", "a", "--question", "x"], "'a' is there twice"),
        (["a", "b", "--state", "/nonexistent/x"], "--state /nonexistent/x: cannot read it"),
        (["a", "b", "--raw", "--thinking", "on", "--question", "x"], "do not go with --raw"),
        (["a", "b", "--question", "x", "--normalize", "max"], "'max' is not one of"),
    ],
)
def test_what_cannot_be_asked(coli: Any, arguments: list[str], words: str) -> None:
    ran = coli("score", *arguments)
    assert ran.code == 2
    assert words in ran.err
    assert ran.out == ""

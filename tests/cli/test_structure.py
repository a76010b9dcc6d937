"""Flags that bind an answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from colibri import Structure

SCHEMA = '{"type": "object", "properties": {"a": {"type": "integer"}}}'


def given(tmp_path: Path, name: str, text: str) -> str:
    path = tmp_path / name
    path.write_text(text, "utf-8")
    return str(path)


def test_each_flag_is_a_structure(coli: Any, llm: Any, tmp_path: Path) -> None:
    schema = given(tmp_path, "s.json", SCHEMA)
    gbnf, lark = given(tmp_path, "g.gbnf", 'root ::= "é"'), given(tmp_path, "g.lark", 'start: "a"')
    for flags, structure in (
        (["--json-schema", schema], Structure.json_schema(SCHEMA)),
        (["--grammar", gbnf], Structure.gbnf('root ::= "é"')),
        (["--grammar", lark], Structure.lark('start: "a"')),
        (["--regex", "[a-z]+"], Structure.regex("[a-z]+")),
        (["--choice", "yes, no"], Structure.choice(["yes", "no"])),
        ([], None),
    ):
        assert coli("run", "-q", "x", *flags).code == 0
        assert llm.params[-1].structure == structure
    assert coli("chat", "-q", "--choice", "yes,no", stdin=b"hi\n").code == 0
    assert llm.params[-1].structure == Structure.choice(["yes", "no"])


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--regex", "a", "--choice", "b"], "--regex and --choice do not go together"),
        (["--choice", "a,,b"], "option 1 is ''"),
        (["--json-schema", "{not}"], "'not' at the top"),
        (["--json-schema", "{bad}"], "not JSON"),
        (["--grammar", "{bytes}"], "not UTF-8"),
        (["--json-schema", "{absent}"], "absent"),
    ],
)
def test_what_cannot_be_is_said_before_a_model_is_loaded(
    coli: Any, llm: Any, tmp_path: Path, flags: list[str], says: str
) -> None:
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    files = {
        "not": given(tmp_path, "not.json", '{"not": {}}'),
        "bad": given(tmp_path, "bad.json", "{"),
        "bytes": str(tmp_path / "bytes"),
        "absent": str(tmp_path / "absent"),
    }
    outcome = coli("run", "x", *(flag.format_map(files) for flag in flags))
    assert outcome.code == 2
    assert says in outcome.err
    assert len(outcome.err.splitlines()) == 1
    assert not llm.configs


def test_an_answer_that_is_only_a_beginning_is_an_error(
    coli: Any, llm: Any, tmp_path: Path
) -> None:
    llm.finish_reason = "length"
    schema = given(tmp_path, "s.json", SCHEMA)
    for flags in (["--json-schema", schema], ["--regex", "[a-z]+"]):
        outcome = coli("run", "-q", "x", *flags)
        assert (outcome.code, outcome.out) == (1, "Hello world.\n")
        assert "cut off after 3 tokens (finish_reason length)" in outcome.err
    assert coli("run", "-q", "x").code == 0


def test_in_a_chat_it_is_a_warning(coli: Any, llm: Any) -> None:
    llm.finish_reason = "length"
    outcome = coli("chat", "-q", "--regex", "[a-z]+", stdin=b"hi\nhi\n")
    assert outcome.code == 0
    assert outcome.err.count("warning: the answer was cut off") == 2
    assert coli("chat", "-q", stdin=b"hi\n").err == ""


def test_an_answer_whose_form_is_whole_is_none(coli: Any, llm: Any) -> None:
    outcome = coli("run", "-q", "x", "--regex", "[a-z]+")
    assert (outcome.code, outcome.err) == (0, "")

"""Byte-order marks, which editors of Windows put before a text."""

from __future__ import annotations

import codecs
from pathlib import Path
from typing import Any

import pytest

from colibri import Structure
from colibri.config import EngineConfig
from colibri.errors import ColibriError
from colibri.server.http.body import decode

SCHEMA = '{"type": "object"}'


def marked(path: Path, text: str) -> str:
    path.write_bytes(codecs.BOM_UTF8 + text.encode())
    return str(path)


def test_in_a_configuration_file(tmp_path: Path) -> None:
    file = Path(marked(tmp_path / "config.toml", 'ram = "2GB"\r\n'))
    assert EngineConfig.resolve(environ={}, file=file).ram == "2GB"


def test_in_a_structure(coli: Any, llm: Any, tmp_path: Path) -> None:
    for flag, name, text, structure in (
        ("--json-schema", "s.json", SCHEMA, Structure.json_schema(SCHEMA)),
        ("--grammar", "g.gbnf", 'root ::= "a"', Structure.gbnf('root ::= "a"')),
        ("--grammar", "g.lark", 'start: "a"', Structure.lark('start: "a"')),
    ):
        assert coli("run", "-q", "x", flag, marked(tmp_path / name, text)).code == 0
        assert llm.params[-1].structure == structure


@pytest.mark.parametrize("command", ["run", "chat"])
def test_before_what_is_piped(coli: Any, llm: Any, command: str) -> None:
    assert coli(command, "-q", stdin=codecs.BOM_UTF8 + b"hello\r\n").code == 0
    asked = llm.requests[-1]
    assert (asked if command == "run" else asked[-1]["content"]).strip() == "hello"


def test_before_a_request() -> None:
    body = b'{"model": "m", "messages": [{"role": "user", "content": "hi"}]}'
    assert decode(codecs.BOM_UTF8 + body, dict) == decode(body, dict)
    with pytest.raises(ColibriError):
        decode(codecs.BOM_UTF8, dict)

import contextlib
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colibri.container import jsonfile
from colibri.container.jsonfile import parse_json, read_json
from colibri.errors import ContainerError


def refused(path: Path, data: bytes, *parts: str) -> None:
    path.write_bytes(data)
    started = time.monotonic()
    with pytest.raises(ContainerError) as e:
        read_json(path)
    assert time.monotonic() - started < 10
    message = str(e.value)
    assert message.startswith(str(path))
    assert len(message) < 1000
    for part in parts:
        assert part in message


@pytest.mark.parametrize(
    ("data", "part"),
    [
        (b"", "empty"),
        (b" \n", "empty"),
        (b'{"a": 1', "line 1, column 8"),
        (b'{"a": "b', "Unterminated string"),
        (b'{"a": "\\u12', "\\uXXXX"),
        (b'{"a": "\\', "line 1"),
        (b"{\n a: 1}", "line 2, column 2"),
        (b'{"a": 1} x', "Extra data"),
        (b'{"a": "\xff"}', "UTF-8 at byte 7"),
        (b'{"a": "\xed\xa0\x80"}', "UTF-8"),
        (b'{"a": "\\ud800"}', "half a character"),
        (b"\x00\x00\x00", "begins with zeros"),
        (b"\xff\xfe{\x00}\x00", "UTF-8"),
        (b'{"a": 1, "b": {"c": 1, "c": 2}}', "'c' occurs twice"),
        (b'{"a": 1, "\\u0061": 2}', "'a' occurs twice"),
        (b"[1]", "an array"),
        (b"null", "null"),
        (b"3", "a number"),
        (b"true", "a truth value"),
        (b'"x"', "a string"),
        (b'{"a": ' + b"9" * 100_000 + b"}", "100000 digits"),
        (b'{"a": ' + b"[" * 100_000, "deeper than 64"),
        (b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "deeper than 64"),
        (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "deeper than 64"),
        (b'{"' + b"k" * 5000 + b'": 1, "' + b"k" * 5000 + b'": 1}', "5000 characters"),
        (b'{"a": [' + b"[]," * 4_000_000 + b"[]]}", "values"),
    ],
)
def test_malformed_json_is_refused_with_its_place(tmp_path: Path, data: bytes, part: str) -> None:
    refused(tmp_path / "config.json", data, part)


def test_brackets_inside_strings_are_not_depth() -> None:
    text = b'{"a": "' + b"[" * 1000 + b'\\"' + b"{" * 1000 + b'\\\\", "b": [[1]]}'
    assert parse_json(text, "x")["b"] == [[1]]


def test_depth_is_seen_after_escaped_quotes() -> None:
    with pytest.raises(ContainerError, match="deeper"):
        parse_json(b'{"a": "\\\\", "b": ' + b"[" * 70 + b"]" * 70 + b"}", "x")


def test_depth_is_counted_across_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonfile, "_CHUNK", 5)
    parse_json(b'{"a": "[[[[[[", "b": ' + b"[" * 63 + b"]" * 63 + b"}", "x")
    with pytest.raises(ContainerError, match="deeper"):
        parse_json(b'{"a": "]]]]]]", "b": ' + b"[" * 64 + b"]" * 64 + b"}", "x")


def test_utf8_whatever_the_locale(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(b"\xef\xbb\xbf" + '{"名": "🐦"}'.encode())
    assert read_json(path) == {"名": "🐦"}


def test_a_large_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    with path.open("wb") as f:
        f.truncate(1 << 40)
    with pytest.raises(ContainerError, match=f"{1 << 40} bytes"):
        read_json(path)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes_parse_or_are_refused(data: bytes) -> None:
    for text in (data, b'{"a": ' + data, b'{"a": "' + data + b'"}'):
        with contextlib.suppress(ContainerError):
            assert isinstance(parse_json(text, "x"), dict)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_truncation_is_always_noticed(data: st.DataObject) -> None:
    text = '{"a": [1, 2.5, null], "b": {"c": "ä\\n\\u00e4"}, "d": true}'.encode()
    with pytest.raises(ContainerError):
        parse_json(text[: data.draw(st.integers(0, len(text) - 1))], "x")

"""What a server writes down for `coli stop`."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from colibri.errors import ConfigError
from colibri.server.notefile import Note, folder, killed_before, noted, notes, only

URL = "http://127.0.0.1:8123"


def test_a_note_lives_as_long_as_its_server(tmp_path: Path) -> None:
    environ = {"XDG_RUNTIME_DIR": str(tmp_path)}
    with noted(URL, environ) as token:
        (note,) = notes(8123, environ)
        assert (note.url, note.pid, note.token) == (URL, os.getpid(), token)
        assert notes(8124, environ) == []
        (path,) = (tmp_path / "colibri").iterdir()
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert notes(8123, environ) == []


def test_a_later_servers_note_is_left_alone(tmp_path: Path) -> None:
    environ = {"XDG_RUNTIME_DIR": str(tmp_path)}
    with noted(URL, environ), noted(URL, environ) as later:
        pass
    assert later is not None
    with noted(URL, environ) as first:
        second = noted(URL, environ)
        token = second.__enter__()
        assert token != first
    assert [note.token for note in notes(8123, environ)] == [token]
    second.__exit__(None, None, None)


def test_who_still_runs_was_not_killed(tmp_path: Path) -> None:
    environ = {"XDG_RUNTIME_DIR": str(tmp_path)}
    assert killed_before(URL, environ) is None
    with noted(URL, environ):
        assert killed_before(URL, environ) is None
    assert killed_before(URL, environ) is None
    assert killed_before(URL, {}) is None


def test_addresses_of_the_newer_family(tmp_path: Path) -> None:
    environ = {"XDG_RUNTIME_DIR": str(tmp_path)}
    with noted("http://[::1]:8123", environ), noted(URL, environ):
        assert {note.url for note in notes(8123, environ)} == {URL, "http://[::1]:8123"}
        with pytest.raises(ConfigError, match="--host"):
            only(notes(8123, environ), 8123)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b'{"version":1}',
        b'{"version":9,"url":"x","pid":1,"token":"t"}',
        b"x" * 9999,
    ],
    ids=str,
)
def test_damaged_notes_are_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "colibri").mkdir()
    (tmp_path / "colibri" / "serve-127.0.0.1-8123.json").write_bytes(content)
    assert notes(8123, {"XDG_RUNTIME_DIR": str(tmp_path)}) == []


def test_a_link_or_a_pipe_is_no_note(tmp_path: Path) -> None:
    environ = {"XDG_RUNTIME_DIR": str(tmp_path)}
    (tmp_path / "colibri").mkdir()
    elsewhere = tmp_path / "note"
    elsewhere.write_bytes(b'{"version":1,"url":"http://a:1","pid":1,"token":"t"}')
    (tmp_path / "colibri" / "serve-a-1.json").symlink_to(elsewhere)
    os.mkfifo(tmp_path / "colibri" / "serve-b-1.json")
    assert notes(1, environ) == []


def test_where_notes_are() -> None:
    assert folder({"XDG_STATE_HOME": "/s", "HOME": "/h"}) == Path("/s/colibri")
    assert folder({"HOME": "/h"}) == Path("/h/.local/state/colibri")
    assert folder({}) is None


def test_no_place_for_a_note_is_no_reason_not_to_serve(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with noted(URL, {"XDG_RUNTIME_DIR": str(tmp_path / "file")}) as token:
        assert token is None
    with noted(URL, {}) as token:
        assert token is None


def test_nobody_there() -> None:
    with pytest.raises(ConfigError, match="port 8123"):
        only([], 8123)
    note = Note(version=1, url=URL, pid=1, token="t")
    assert only([note], 8123) is note

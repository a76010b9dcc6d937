from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest
from prompt_toolkit.history import FileHistory, InMemoryHistory

from colibri.cli.talk.history import history
from colibri.errors import ConfigError


def entries(path: Path) -> list[str]:
    return list(history(str(path), {}).load_history_strings())


def test_a_private_file_in_the_state_directory(tmp_path: Path) -> None:
    history(None, {"XDG_STATE_HOME": str(tmp_path)}).store_string("one\ntwo")
    path = tmp_path / "colibri" / "chat-history"
    assert path.stat().st_mode & 0o777 == 0o600
    assert entries(path) == ["one\ntwo"]


def test_a_file_that_others_could_read_becomes_private(tmp_path: Path) -> None:
    path = tmp_path / "h"
    path.touch(mode=0o644)
    history(str(path), {})
    assert path.stat().st_mode & 0o777 == 0o600


def test_off_and_nowhere(tmp_path: Path) -> None:
    assert isinstance(history("off", {"HOME": str(tmp_path)}), InMemoryHistory)
    assert isinstance(history(None, {}), InMemoryHistory)
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_is_refused_if_asked_for(tmp_path: Path, capsys: Any) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigError, match="is no plain file"):
        history(str(tmp_path / "pipe"), {})
    (tmp_path / "colibri").touch()
    assert isinstance(history(None, {"XDG_STATE_HOME": str(tmp_path)}), InMemoryHistory)
    assert "no history there" in capsys.readouterr().err


def test_a_long_file_loses_its_older_half(tmp_path: Path) -> None:
    path = tmp_path / "h"
    kept = history(str(path), {})
    for number in range(30):
        kept.store_string(f"{number} " + "x" * 50_000)
    found = entries(path)
    assert found[0].startswith("29 ")
    assert 5 < len(found) < 12
    assert all(len(entry) > 50_000 for entry in found)
    assert [p.name for p in tmp_path.iterdir()] == ["h"]


def test_lone_surrogates_are_no_crash(tmp_path: Path) -> None:
    history(str(tmp_path / "h"), {}).store_string("a\udcffb")
    assert entries(tmp_path / "h") == ["a?b"]


def test_a_full_disk_ends_the_writing_and_not_the_conversation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """B056."""
    path = tmp_path / "h"
    kept = history(str(path), {})
    kept.store_string("before")
    attempts = []

    def full(_self: FileHistory, string: str) -> None:
        attempts.append(string)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(FileHistory, "store_string", full)
    for line in ("one", "two"):
        kept.store_string(line)
    assert attempts == ["one"]
    assert capsys.readouterr().err.count("No space left on device") == 1
    assert entries(path) == ["before"]

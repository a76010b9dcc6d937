from __future__ import annotations

from pathlib import Path

import pytest

from colibri.container.lock import locked
from colibri.errors import ConfigError


def refused(directory: Path, then: str = "") -> None:
    def work() -> None:
        with locked(directory, "work"):
            if then:
                (directory / then).touch()
            raise ConfigError("no")

    with pytest.raises(ConfigError, match="no"):
        work()


def test_refused_work_leaves_no_directory_that_was_not_there(tmp_path: Path) -> None:
    refused(tmp_path / "a" / "b")
    assert not (tmp_path / "a").exists()
    assert tmp_path.exists()


def test_what_was_there_or_holds_something_stays(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    refused(tmp_path / "a")
    refused(tmp_path / "b" / "c", then="file")
    assert (tmp_path / "a").exists()
    assert (tmp_path / "b" / "c" / "file").exists()


def test_who_is_refused_for_the_lock_takes_nothing_away(tmp_path: Path) -> None:
    with locked(tmp_path / "a", "work"):
        with (
            pytest.raises(ConfigError, match="another work is writing here"),
            locked(tmp_path / "a", "work"),
        ):
            pass
        assert (tmp_path / "a").exists()
    assert (tmp_path / "a").exists()

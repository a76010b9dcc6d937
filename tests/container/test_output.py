"""Files named for results: whole or as before; links stay links, pipes and devices are kept."""

import os
import stat
import threading
from pathlib import Path

import pytest

from colibri.container.output import check_writable, write_text
from colibri.container.writer import write_file
from colibri.errors import ConfigError, ContainerError


def test_a_link_stays_and_what_it_names_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    target, link = tmp_path / "far" / "results.json", tmp_path / "link.json"
    target.write_text("old")
    link.symlink_to(target)
    write_text(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert os.listdir(tmp_path / "far") == ["results.json"]


def test_a_pipe_is_written_to_and_stays_a_pipe(tmp_path: Path) -> None:
    pipe, got = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: got.append(pipe.read_text()))
    reader.start()
    check_writable("--json", pipe)
    write_text(pipe, "news")
    reader.join(10)
    assert got == ["news"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_the_file_that_is_stdout_keeps_what_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "out.txt"
    with path.open("w") as out:
        out.write("before ")
        out.flush()
        monkeypatch.setattr("colibri.container.output._OWN", (out.fileno(),))
        write_text(path, "after")
    assert path.read_text() == "before after"


def test_what_cannot_be_written_is_told_at_once(tmp_path: Path) -> None:
    for path, why in ((tmp_path, "a directory of that name"), (tmp_path / "none" / "x", "no dir")):
        with pytest.raises(ConfigError, match=f"--json: cannot write .*: there is {why}"):
            check_writable("--json", path)


def test_a_folder_that_may_not_be_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(ConfigError, match="may not be written to"):
        check_writable("--json", tmp_path / "x")


def test_no_file_takes_the_place_of_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(ContainerError, match="no regular file"):
        write_file(pipe, [b"x"], 1)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert os.listdir(tmp_path) == ["pipe"]

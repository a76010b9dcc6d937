"""A machine whose /sys and /proc may not be looked at, as in a container that hides them."""

from __future__ import annotations

import builtins
import io
import os
from pathlib import Path
from typing import Any

import pytest

from colibri.hardware.cgroup import cpu_quota, memory_limits
from colibri.hardware.host import host
from colibri.hardware.iobench import last_level_cache_bytes
from colibri.hardware.neighbours import neighbours
from colibri.hardware.numa import memory_nodes
from colibri.hardware.probe import facts
from colibri.hardware.storage import Storage, storage_of


@pytest.fixture
def hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A root below which nothing may be looked at but /proc/self, whose mounts name a disk."""
    mounts = tmp_path / "proc/self/mountinfo"
    mounts.parent.mkdir(parents=True)
    mounts.write_text(f"1 0 0:39 / {tmp_path} rw - overlay overlay rw\n")
    (mounts.parent / "cgroup").write_text("0::/box\n")

    def guarded(call: Any) -> Any:
        def forbidden(path: Any, *args: Any, **more: Any) -> Any:
            text = os.fspath(path) if not isinstance(path, int) else ""
            if text.startswith(str(tmp_path)) and not text.startswith(str(mounts.parent)):
                raise PermissionError(13, "Permission denied", text)
            return call(path, *args, **more)

        return forbidden

    for owner, name in (
        (os, "stat"),
        (os, "lstat"),
        (os, "listdir"),
        (os, "scandir"),
        (os, "open"),
        (io, "open"),
        (builtins, "open"),
    ):
        monkeypatch.setattr(owner, name, guarded(getattr(owner, name)))
    return tmp_path


def test_nothing_is_known_and_nothing_fails(hidden: Path) -> None:
    assert storage_of(hidden / "model", hidden) == Storage("overlay", None, None, None)
    assert memory_limits(hidden) == []
    assert cpu_quota(hidden) is None
    assert neighbours(hidden) == ()
    assert memory_nodes(hidden) == ()
    assert last_level_cache_bytes(hidden / "sys") is None
    assert facts(hidden).physical_cores >= 1
    assert host(hidden).huge_pages is None

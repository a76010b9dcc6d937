"""The bench's folder: one synthetic container at a time, and nothing of anyone else's touched."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from colibri.container.files import list_names
from colibri.container.writer import PART_SUFFIX, free_bytes, naming_the_file
from colibri.errors import CapacityError, ConfigError

MARKER_NAME = ".coli_bench"
_OWN = re.compile(
    r"(colibri\.json|config\.json|(trunk|experts-L\d{5})\.safetensors)" + rf"({PART_SUFFIX})?",
    re.ASCII,
)


def default_folder(environ: Mapping[str, str]) -> Path:
    cache = environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache) / "colibri" / "bench"


def others(folder: Path, keep: Path) -> list[Path]:
    """Containers of the bench beside `keep`, finished or not."""
    if not folder.is_dir():
        return []
    paths = (folder / name for name in list_names(folder))
    return [p for p in paths if p != keep and (p / MARKER_NAME).is_file()]


def claim(directory: Path) -> None:
    """Make the directory ours and empty; a directory of someone else's files is refused."""
    with naming_the_file(directory):
        directory.mkdir(parents=True, exist_ok=True)
    foreign = [n for n in list_names(directory) if n != MARKER_NAME]
    if foreign and not (directory / MARKER_NAME).is_file():
        raise ConfigError(
            f"{directory}: holds {foreign[0]!a} and is no folder of the bench; "
            "give another --bench-dir"
        )
    with naming_the_file(directory / MARKER_NAME):
        (directory / MARKER_NAME).touch()
    _clear(directory)


def remove(directory: Path) -> None:
    """Delete a container of the bench; files that the bench did not write stay."""
    _clear(directory)
    with naming_the_file(directory):
        if list_names(directory) == [MARKER_NAME]:
            (directory / MARKER_NAME).unlink()
            os.rmdir(directory)


def check_space(directory: Path, needed: int) -> None:
    free = free_bytes(directory)
    if free < needed:
        raise CapacityError(
            f"{directory}: the synthetic container needs {needed} bytes, {free} are free: "
            f"{needed - free} are missing; free them, or give fewer layers or another --bench-dir"
        )


def _clear(directory: Path) -> None:
    with naming_the_file(directory):
        for name in list_names(directory):
            if _OWN.fullmatch(name):
                (directory / name).unlink()

"""The directory a conversion writes to: whose it is, what lies in it, what may be removed."""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from pathlib import Path

from colibri.container.files import list_names, shown
from colibri.container.spec import JOURNAL_NAME, MANIFEST_NAME
from colibri.container.spread import SUFFIX
from colibri.container.writer import PART_SUFFIX, free_bytes, naming_the_file, sync_directory
from colibri.convert.journal import INVENTORY_NAME
from colibri.convert.sidefiles import is_side_file
from colibri.errors import CapacityError, ConfigError, ContainerError

_SHARD = re.compile(r"(trunk|experts-L[0-9]{5,})-[0-9]{5,}-of-[0-9]{5,}\.safetensors", re.ASCII)
_OWN = (MANIFEST_NAME, JOURNAL_NAME, INVENTORY_NAME)


def check_places(source: Path, destination: Path) -> None:
    """Refuse a source that is no directory or no checkpoint, and a destination that is the source
    or a file."""
    names = list_names(source)
    if MANIFEST_NAME in names or JOURNAL_NAME in names:
        raise ConfigError(
            f"{source}: is a conversion already; give the checkpoint as it was downloaded"
        )
    if destination.exists() and not destination.is_dir():
        raise ConfigError(f"{destination}: is a file; give a directory for the converted model")
    a, b = source.resolve(), destination.resolve()
    if a == b or (destination.exists() and source.samefile(destination)):
        raise ConfigError(f"{destination}: source and destination are the same directory")


def check_empty(destination: Path, force: bool) -> None:
    """Refuse a directory with files of others; with `force`, ours may be there."""
    foreign = [
        n
        for n in list_names(destination)
        if not n.startswith(".") and n != "lost+found" and not (force and _is_ours(n))
    ]
    if foreign:
        raise ConfigError(
            f"{destination}: holds {shown(foreign[0])}, which belongs to no unfinished "
            "conversion; give an empty or new directory"
        )


def remove_unfinished(destination: Path, finished: Collection[str]) -> None:
    """Remove left-over temporary files and shards that no journal entry vouches for."""
    names = list_names(destination)
    stale = [n for n in names if _SHARD.fullmatch(n) and n not in finished]
    stale += [n for n in names if n.endswith(PART_SUFFIX) and _is_ours(n)]
    _remove(destination, stale)


def remove_manifest(destination: Path) -> None:
    """From here on the directory is an unfinished conversion."""
    _remove(destination, [MANIFEST_NAME])


def check_space(destination: Path, needed: int, what: str) -> None:
    free = free_bytes(destination)
    if free < needed:
        raise CapacityError(
            f"{destination}: {what} needs {needed} bytes, {free} are free: {needed - free} bytes "
            "are missing; free them, then run the same command to continue"
        )


def delete_source_file(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
        sync_directory(path.parent)
    except OSError as error:
        raise ContainerError(
            f"{path}: cannot be deleted: {error.strerror}; run the same command without deleting, "
            "it goes on from here"
        ) from error


def check_deletable(source: Path) -> None:
    """Deleting a link would free nothing, and its target may belong to another model too."""
    if not os.access(source, os.W_OK | os.X_OK):
        raise ConfigError(
            f"{source}: cannot be written, so nothing can be deleted in it: convert without "
            "deleting, or change its permissions"
        )
    for name in list_names(source):
        if name.endswith(SUFFIX) and (source / name).is_symlink():
            raise ConfigError(
                f"{source / name}: is a symbolic link, as in the cache of Hugging Face's hub; "
                "deleting it would free nothing: convert without deleting and remove the download "
                "afterwards (the hub's cache: `hf cache`), or give the files' own directory"
            )


def has_files(destination: Path, sizes: dict[str, int]) -> None:
    """Refuse a finished conversion whose files are gone or cut."""
    for name, size in sizes.items():
        path = destination / name
        if not path.is_file() or path.stat().st_size != size:
            raise ContainerError(
                f"{path}: missing or not of {size} bytes, though the conversion had finished; "
                "restore it, or convert again with --force"
            )


def _remove(directory: Path, names: Collection[str]) -> None:
    for name in names:
        with naming_the_file(directory / name):
            (directory / name).unlink(missing_ok=True)
    if names:
        sync_directory(directory)


def _is_ours(name: str) -> bool:
    name = name.removesuffix(PART_SUFFIX)
    return name in _OWN or _SHARD.fullmatch(name) is not None or is_side_file(name)

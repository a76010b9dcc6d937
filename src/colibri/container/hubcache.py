"""Models as Hugging Face's tools keep them: a cache of `models--ORG--NAME` directories.

Each has `snapshots/COMMIT` with links into `blobs`, and `refs/main`, which names the commit that
was downloaded last. A person knows such a model as ORG/NAME.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from colibri.container.files import as_unicode, list_names, reason
from colibri.errors import ContainerError

EMBEDDED_NAME = "colibri-demo"

_PREFIX = "models--"
_SNAPSHOTS = "snapshots"
_ID = re.compile(r"[A-Za-z0-9_][\w.-]{0,95}(/[A-Za-z0-9_][\w.-]{0,95})?", re.ASCII)
_COMMIT_BYTES = 200
# A path has one slash where an address has two.
_ADDRESS = re.compile(r"https?:/+(?:huggingface\.co/([\w.-]+/[\w.-]+))?", re.ASCII)


@dataclass(frozen=True)
class HubModel:
    id: str  # ORG/NAME
    path: Path  # the snapshot that it means here; with a problem the whole model's
    problem: str | None = None  # why it means none


def hub_folder(environ: Mapping[str, str]) -> Path | None:
    """Where the cache is on this machine; it need not exist. None: the user has no home."""
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if named := environ.get(name):
            return Path(named).expanduser()
    if home := environ.get("HF_HOME"):
        return Path(home).expanduser() / "hub"
    if cache := environ.get("XDG_CACHE_HOME"):
        return Path(cache) / "huggingface" / "hub"
    if home := environ.get("HOME"):
        return Path(home) / ".cache" / "huggingface" / "hub"
    return None


def hub_models(environ: Mapping[str, str]) -> Iterator[HubModel]:
    """The models of the cache by name, also those of which no snapshot can be told. Raises
    ContainerError for a cache that cannot be read."""
    folder = hub_folder(environ)
    if folder is None or not folder.is_dir():
        return
    for name in list_names(folder):
        model_id = _id_of(name)
        if model_id is None:
            continue
        try:
            yield HubModel(model_id, _snapshot(folder / name))
        except ContainerError as error:
            yield HubModel(model_id, folder / name, str(error))


def hub_id(path: Path) -> str | None:
    """ORG/NAME of a snapshot's directory; None of any other."""
    parts = path.absolute().parts
    return _id_of(parts[-3]) if len(parts) > 3 and parts[-2] == _SNAPSHOTS else None


def model_name(named: str | None, path: Path) -> str:
    """What a model in this directory is called: ORG/NAME in the cache, else the directory's name.

    named: as `--model` has it; None is the embedded model.
    """
    if named is None:
        return EMBEDDED_NAME
    return as_unicode(hub_id(path) or path.absolute().name)


def located(name: str | Path, environ: Mapping[str, str]) -> Path:
    """The directory that a model's name means: itself, or a snapshot of the cache.

    ORG/NAME that is no directory is looked for in the cache; ContainerError says how to get it. Any
    other name that is no directory is given back as it is.
    """
    path = Path(name)
    if os.path.lexists(path):
        return _within(path)
    if address := _ADDRESS.match(str(name)):
        get = f"hf download {address[1]}" if address[1] else "a download"
        raise ContainerError(
            f"{name}: an address, and colibri downloads nothing itself; `{get}` puts a model here"
        )
    if not _ID.fullmatch(str(name)):
        return path
    folder = hub_folder(environ)
    cached = None if folder is None else folder / (_PREFIX + str(name).replace("/", "--"))
    if cached is not None and cached.is_dir():
        return _snapshot(cached)
    if "/" not in str(name):
        return path
    raise ContainerError(
        f"{name}: no such directory, and no model of that name in the cache of Hugging Face's hub"
        f"{f' ({folder})' if folder else ''}; `hf download {name}` puts it there"
    )


def _within(path: Path) -> Path:
    """A directory of the cache that is none of a model itself: the snapshot it means."""
    whole = path.absolute()
    repository = whole.parent if whole.name == _SNAPSHOTS else whole
    if _id_of(repository.name) is None or (path / "config.json").exists():
        return path
    return _snapshot(repository)


def _snapshot(repository: Path) -> Path:
    """The snapshot that refs/main names, else the only one."""
    folder = repository / _SNAPSHOTS
    found = list_names(folder) if folder.is_dir() else []
    commit = _main(repository)
    if commit in found or (commit is None and len(found) == 1):
        return folder / (commit or found[0])
    again = f"`hf download {_id_of(repository.name)}` completes it"
    if not found:
        raise ContainerError(f"{repository}: the hub's cache holds no snapshot of it; {again}")
    named = f"refs/main names {commit}, which is not there" if commit else "there is no refs/main"
    raise ContainerError(
        f"{folder}: {named}; name one of {', '.join(found[:5])}, with its path, or {again}"
    )


def _main(repository: Path) -> str | None:
    path = repository / "refs" / "main"
    try:
        with path.open("rb") as file:
            text = file.read(_COMMIT_BYTES).decode("utf-8", "replace").strip()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ContainerError(f"{path}: cannot be read: {reason(error)}") from None
    return text or None


def _id_of(name: str) -> str | None:
    """ORG/NAME of models--ORG--NAME."""
    if not name.startswith(_PREFIX) or len(name) == len(_PREFIX):
        return None
    return name.removeprefix(_PREFIX).replace("--", "/", 1)

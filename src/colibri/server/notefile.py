"""What a running server writes down for `coli stop`: where it listens, and the token that ends it.

A file of the user's own, a server a file. Nobody is ended by a process id, which may be another
process's by now: whoever listens on the port and knows the token ends itself.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec

from colibri.config import state_folder
from colibri.container.jsonfile import encode_json
from colibri.container.writer import write_file
from colibri.errors import ColibriError, ConfigError

_VERSION = 1
_LARGEST = 4096


class Note(msgspec.Struct, frozen=True, kw_only=True):
    version: int
    url: str
    pid: int
    token: str


def folder(environ: Mapping[str, str]) -> Path | None:
    """Where this user's servers leave their notes; None: the user has no home."""
    if runtime := environ.get("XDG_RUNTIME_DIR"):
        return Path(runtime) / "colibri"
    return state_folder(environ)


@contextmanager
def noted(url: str, environ: Mapping[str, str]) -> Iterator[str | None]:
    """The token, written down as long as the server runs. None: it could not be."""
    path = _path(url, environ)
    token = secrets.token_urlsafe(32)
    note = Note(version=_VERSION, url=url, pid=os.getpid(), token=token)
    if path is None or not _write(path, note):
        yield None
        return
    try:
        yield token
    finally:
        _remove(path, token)


def killed_before(url: str, environ: Mapping[str, str]) -> Note | None:
    """The note of a server that listened here before and was killed: whoever ends takes it away.
    To be asked by who listens here now, before noted()."""
    path = _path(url, environ)
    note = None if path is None else _read(path)
    if note is None or note.url != url:
        return None
    try:
        os.kill(note.pid, 0)
    except ProcessLookupError:
        return note
    except OSError:
        pass
    return None  # it is just ending, or the number is another process's by now


def notes(port: int, environ: Mapping[str, str]) -> list[Note]:
    """Of servers that said they listen on this port; some may be gone."""
    where = folder(environ)
    paths = (
        [] if where is None or not where.is_dir() else sorted(where.glob(f"serve-*-{port}.json"))
    )
    return [note for path in paths if (note := _read(path)) is not None]


def _path(url: str, environ: Mapping[str, str]) -> Path | None:
    where = folder(environ)
    if where is None:
        return None
    host, _, port = url.removeprefix("http://").rpartition(":")
    return where / f"serve-{host.strip('[]').replace(':', '_')}-{port}.json"


def _write(path: Path, note: Note) -> bool:
    data = encode_json(note)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        before = os.umask(0o077)
        try:
            write_file(path, [data], len(data))
        finally:
            os.umask(before)
    except (OSError, ColibriError):
        return False
    return True


def _read(path: Path) -> Note | None:
    """Only what this user wrote: a note of somebody else's could name any address."""
    try:
        found = path.lstat()
        own = stat.S_ISREG(found.st_mode) and found.st_uid == os.getuid()
        if not own or found.st_size > _LARGEST:
            return None
        note = msgspec.json.decode(path.read_bytes(), type=Note)
    except (OSError, msgspec.MsgspecError):
        return None
    return note if note.version == _VERSION else None


def _remove(path: Path, token: str) -> None:
    """Ours only: a later server may have written its own there."""
    note = _read(path)
    if note is not None and note.token == token:
        path.unlink(missing_ok=True)


def only(found: list[Note], port: int) -> Note:
    if not found:
        raise ConfigError(
            f"no colibri server of this user is known to listen on port {port}; a server of "
            "another user is stopped as that user, and one on another machine is stopped there"
        )
    if len(found) > 1:
        raise ConfigError(
            f"several servers listen on port {port}: {', '.join(note.url for note in found)}; say "
            "which with --host"
        )
    return found[0]

"""The journal of a conversion: what a resumed run must match, and which outputs are finished.

Two files in the destination. `.coli_convert_source.json` is written once: every tensor of the
source, so that a run whose source shards are already deleted still knows the whole plan.
`.coli_convert.json` is replaced after each finished output.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeVar

import msgspec

from colibri.container.files import opened, read_range
from colibri.container.header import TensorInfo
from colibri.container.spec import JOURNAL_NAME
from colibri.container.writer import Written, naming_the_file, write_file
from colibri.errors import ContainerError

INVENTORY_NAME = ".coli_convert_source.json"
JOURNAL_VERSION = 1

_SAMPLES = 8
_SAMPLE_BYTES = 4096

T = TypeVar("T")


class Finished(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A verified output; `multipliers` are those of the packed trunk tensors in it."""

    size: int
    sha256: str
    multipliers: dict[str, float] = {}


class Journal(msgspec.Struct, forbid_unknown_fields=True):
    version: int
    params: dict[str, str]
    finished: dict[str, Finished]


class SourceTensor(msgspec.Struct, frozen=True, array_like=True):
    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int
    nbytes: int


class SourceFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    size: int
    sample: str  # a hash of a few pages: another model's file may have the very same header
    tensors: tuple[SourceTensor, ...]


class Inventory(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Every tensor of a checkpoint by file, in file and offset order."""

    files: tuple[SourceFile, ...]

    def encode(self) -> bytes:
        return msgspec.json.encode(self)

    def digest(self) -> str:
        return hashlib.sha256(self.encode()).hexdigest()

    def tensors(self, directory: Path) -> list[TensorInfo]:
        return [
            TensorInfo(t.name, t.dtype, t.shape, directory / f.name, t.offset, t.nbytes)
            for f in self.files
            for t in f.tensors
        ]


def take_inventory(tensors: Mapping[str, TensorInfo]) -> Inventory:
    """The inventory of a checkpoint that is all there."""
    by_file: dict[Path, list[TensorInfo]] = {}
    for info in tensors.values():
        by_file.setdefault(info.file, []).append(info)
    return Inventory(tuple(source_file(path, by_file[path]) for path in sorted(by_file)))


def source_file(path: Path, tensors: Iterable[TensorInfo]) -> SourceFile:
    """What is remembered of one file of the source."""
    ordered = sorted(tensors, key=lambda t: (t.offset, t.name))
    entries = (SourceTensor(t.name, t.dtype, t.shape, t.offset, t.nbytes) for t in ordered)
    size, sample = _sample(path)
    return SourceFile(path.name, size, sample, tuple(entries))


def _sample(path: Path) -> tuple[int, str]:
    digest = hashlib.sha256()
    with opened(path) as (fd, size):
        for i in range(1, _SAMPLES + 1):
            start = max(0, size * i // _SAMPLES - _SAMPLE_BYTES)
            digest.update(read_range(fd, path, start, min(_SAMPLE_BYTES, size - start)))
    return size, digest.hexdigest()


def load_journal(destination: Path) -> Journal | None:
    """The journal of an unfinished conversion, if there is one; a damaged one is refused."""
    path = destination / JOURNAL_NAME
    data = _read(path)
    if data is None:
        return None
    version = _decode(path, data, _Version).version
    if version != JOURNAL_VERSION:
        raise ContainerError(
            f"{path}: version {version} of the conversion journal is not known (this colibri "
            f"writes {JOURNAL_VERSION}); finish with the colibri that began it, or use --force "
            "to start anew"
        )
    journal = _decode(path, data, Journal)
    for name, entry in journal.finished.items():
        if not all(math.isfinite(m) for m in entry.multipliers.values()):
            raise ContainerError(f"{path}: {name}: a multiplier is not finite; use --force")
    return journal


def load_inventory(destination: Path, digest: str) -> Inventory:
    """The source's tensors as the unfinished conversion found them."""
    path = destination / INVENTORY_NAME
    data = _read(path)
    if data is None:
        raise ContainerError(f"{path} is missing beside the journal; use --force to start anew")
    inventory = _decode(path, data, Inventory)
    if inventory.digest() != digest:
        raise ContainerError(f"{path} does not match the journal; use --force to start anew")
    return inventory


def save_inventory(destination: Path, inventory: Inventory) -> None:
    data = inventory.encode()
    write_file(destination / INVENTORY_NAME, [data], len(data))


def save_journal(destination: Path, journal: Journal) -> None:
    data = msgspec.json.format(msgspec.json.encode(journal), indent=1)
    write_file(destination / JOURNAL_NAME, [data], len(data))


def remove_journal(destination: Path) -> None:
    path = destination / JOURNAL_NAME
    with naming_the_file(path):
        path.unlink(missing_ok=True)
        (destination / INVENTORY_NAME).unlink(missing_ok=True)


def record(journal: Journal, name: str, written: Written, multipliers: dict[str, float]) -> None:
    journal.finished[name] = Finished(written.size, written.sha256, multipliers)


class _Version(msgspec.Struct):
    version: int


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ContainerError(f"{path}: cannot be read: {error.strerror}") from error


def _decode(path: Path, data: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ContainerError(f"{path} is damaged ({error}); use --force to start anew") from error

"""Which experts are worth a second copy, for a budget: whole shards, or the hottest records.

A layer is asked for as many experts as any other, so heat tells experts apart and hardly shards:
for the same bytes hot records serve far more reads.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import xxhash

from colibri.container.mirror import (
    RECORDS_FORMAT,
    RECORDS_SUFFIX,
    Key,
    Layers,
    experts_by_file,
    image_bytes,
)
from colibri.container.receipt import FileKind
from colibri.container.spec import record_name
from colibri.container.writer import OutTensor, shard_header
from colibri.errors import CapacityError

Unit = Literal["records", "shards"]
Heat = Mapping[Key, float]  # how often an expert was asked for

FILE_BYTES = 1 << 30  # of records in a file: what an interruption costs at most


@dataclass(frozen=True)
class PlannedFile:
    """A file to be staged, and the experts in it (of a shard: those with a part in it)."""

    name: str
    kind: FileKind
    size: int
    experts: tuple[Key, ...]
    header: bytes = b""  # of a file of records
    source: Path | None = None  # of a shard


@dataclass(frozen=True)
class Present:
    """What a mirror has from earlier runs."""

    names: Collection[str] = ()
    experts: Collection[Key] = ()
    nbytes: int = 0


@dataclass(frozen=True)
class MirrorPlan:
    """The files to be staged. `share`: the part of all selections counted so far that the mirror
    then serves; None where nothing was counted."""

    unit: Unit
    files: tuple[PlannedFile, ...]
    present: Present
    experts: int
    experts_total: int
    share: float | None

    @property
    def new_bytes(self) -> int:
        return sum(file.size for file in self.files)


@dataclass(frozen=True)
class _Candidate:
    experts: tuple[Key, ...]
    nbytes: int
    source: Path | None = None


def make_plan(
    layers: Layers,
    heat: Heat,
    identity: str,
    *,
    unit: Unit,
    room_bytes: int,
    present: Present = Present(),
    file_bytes: int = FILE_BYTES,
) -> MirrorPlan:
    """The hottest for their size first, as far as they fit into room_bytes beside what is present.

    Raises CapacityError if something is missing and nothing fits.
    """
    if unit == "records":
        candidates = [c for c in _records(layers) if c.experts[0] not in present.experts]
        chosen = _hottest(candidates, heat, room_bytes)
        files = _record_files(chosen, identity, room_bytes, file_bytes)
    else:
        candidates = [c for c in _shards(layers) if c.source and c.source.name not in present.names]
        files = [_shard_file(c) for c in _hottest(candidates, heat, room_bytes)]
    if candidates and not files:
        raise CapacityError(
            f"no more {unit} fit into the mirror: one takes {min(c.nbytes for c in candidates)} "
            f"bytes and its header; {max(room_bytes, 0)} are left of --budget, and of what is free "
            "beyond --reserve"
        )
    covered = {*present.experts, *(key for file in files for key in file.experts)}
    total = sum(heat.values())
    return MirrorPlan(
        unit,
        tuple(files),
        present,
        len(covered),
        sum(layer.num_experts for layer in layers.values()),
        sum(heat.get(key, 0) for key in covered) / total if total else None,
    )


def _records(layers: Layers) -> Iterator[_Candidate]:
    for number, layer in sorted(layers.items()):
        for expert in range(layer.num_experts):
            yield _Candidate(((number, expert),), image_bytes(layer.reads(expert)))


def _shards(layers: Layers) -> Iterator[_Candidate]:
    for file, experts in experts_by_file(layers).items():
        yield _Candidate(tuple(experts), file.stat().st_size, file)


def _hottest(candidates: Sequence[_Candidate], heat: Heat, room_bytes: int) -> list[_Candidate]:
    def coldness(c: _Candidate) -> tuple[float, tuple[Key, ...]]:
        return -sum(heat.get(key, 0) for key in c.experts) / c.nbytes, c.experts

    chosen = []
    for candidate in sorted(candidates, key=coldness):
        if candidate.nbytes <= room_bytes:
            chosen.append(candidate)
            room_bytes -= candidate.nbytes
    return chosen


def _shard_file(c: _Candidate) -> PlannedFile:
    assert c.source is not None
    return PlannedFile(c.source.name, "shard", c.nbytes, c.experts, source=c.source)


def _record_files(
    chosen: list[_Candidate], identity: str, room_bytes: int, file_bytes: int
) -> list[PlannedFile]:
    """The hottest in the first file. The coldest go where the headers have no room."""
    while True:
        files = [_record_file(part, identity) for part in _parts(chosen, file_bytes)]
        if not files or sum(file.size for file in files) <= room_bytes:
            return files
        chosen = chosen[:-1]


def _parts(chosen: Sequence[_Candidate], file_bytes: int) -> Iterator[list[_Candidate]]:
    part: list[_Candidate] = []
    left = file_bytes
    for candidate in chosen:
        if part and candidate.nbytes > left:
            yield part
            part, left = [], file_bytes
        part.append(candidate)
        left -= candidate.nbytes
    if part:
        yield part


def _record_file(part: Sequence[_Candidate], identity: str) -> PlannedFile:
    """Named after what is in it, so that no other file is ever in its way."""
    ordered = sorted(part, key=lambda c: c.experts)
    tensors = [OutTensor(record_name(*c.experts[0]), "U8", (c.nbytes,), c.nbytes) for c in ordered]
    header = shard_header(tensors, {"format": RECORDS_FORMAT, "model": identity})
    return PlannedFile(
        f"hot-{xxhash.xxh3_64_hexdigest(header)}{RECORDS_SUFFIX}",
        "records",
        len(header) + sum(c.nbytes for c in ordered),
        tuple(c.experts[0] for c in ordered),
        header,
    )

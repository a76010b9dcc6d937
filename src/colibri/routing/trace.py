"""Recorded routing: which experts every row of every call of a layer went to, and how much.

A file is one line of JSON (Header), then records, each written at once: a run that is killed leaves
all but the last. A record, little-endian:

    u32 bytes after this head of 8, u32 XXH32 of them
    u32 rows, u16 layer, u16 k, u16 experts whose logits follow (0: none), u16 sequences
    u32 [sequences]      first row of each; as many as rows: a step of decode, else of a prompt
    u16 [rows, k]        topk_ids, best first
    f32 [rows, k]        topk_weights
    f32 [rows, experts]  router logits, if any
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import msgspec
import numpy as np
import xxhash

from colibri.config.sizes import LARGEST_BYTES
from colibri.container.files import open_file, reason, shown
from colibri.errors import ConfigError, ContainerError
from colibri.routing.base import F32, I32

VERSION = 1
_HEAD, _SHAPE = struct.Struct("<II"), struct.Struct("<IHHHH")
_MOST_HEADER = 1 << 20
_MOST_ID = 0xFFFF  # of a layer or an expert
_MOST_RECORD = 1 << 30


class LayerFacts(msgspec.Struct, frozen=True):
    layer: int
    experts: int
    k: int = 0
    expert_bytes: int = 0  # read from disk for one
    slot_bytes: int = 0
    slots: int = 0  # of the run that was recorded


class Header(msgspec.Struct, frozen=True, kw_only=True, tag_field="format", tag="colibri-trace"):
    version: int = VERSION
    model: str
    hidden_size: int
    layers: list[LayerFacts]
    logits: bool = False
    policy: str = "lru"
    scope: str = "layer"
    pair_buffer_bytes: int = 64_000_000


@dataclass(frozen=True)
class Call:
    """One layer's routing of the rows of a step."""

    layer: int
    starts: Sequence[int]  # first row of each sequence
    ids: I32  # [rows, k]
    weights: F32  # [rows, k]
    logits: F32 | None = None  # [rows, experts]

    @property
    def prefill(self) -> bool:
        return len(self.ids) != len(self.starts)


def encode_header(header: Header) -> bytes:
    return msgspec.json.encode(header) + b"\n"


def encode(call: Call) -> bytes:
    rows, k = call.ids.shape
    experts = 0 if call.logits is None else call.logits.shape[1]
    parts = [
        _SHAPE.pack(rows, call.layer, k, experts, len(call.starts)),
        np.asarray(call.starts, "<u4").tobytes(),
        call.ids.astype("<u2").tobytes(),
        call.weights.astype("<f4", copy=False).tobytes(),
    ]
    if call.logits is not None:
        parts.append(call.logits.astype("<f4", copy=False).tobytes())
    body = b"".join(parts)
    return _HEAD.pack(len(body), xxhash.xxh32_intdigest(body)) + body


class TraceFile:
    """A trace, read record by record: of any length in little memory.

    Raises ContainerError if it cannot be read or is damaged, ConfigError if it is no trace.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with self._open() as file:
            self.header = self._header(file)
            self._first = file.tell()
        self._layers = {facts.layer: facts for facts in self.header.layers}

    def calls(self) -> Iterator[Call]:
        """In the order of the run, up to the last whole record."""
        with self._open() as file:
            file.seek(self._first)
            while (head := file.read(_HEAD.size)) and len(head) == _HEAD.size:
                nbytes, digest = _HEAD.unpack(head)
                at = file.tell() - _HEAD.size
                if nbytes > _MOST_RECORD:
                    raise self._damaged(at, f"a record of {nbytes} bytes")
                body = file.read(nbytes)
                if len(body) < nbytes:
                    return
                if xxhash.xxh32_intdigest(body) != digest:
                    raise self._damaged(at, "a record does not match its checksum")
                yield self._decode(body, at)

    def _open(self) -> BinaryIO:
        return os.fdopen(open_file(self.path), "rb")

    def _header(self, file: BinaryIO) -> Header:
        line = file.readline(_MOST_HEADER)
        try:
            header = msgspec.json.decode(line, type=Header)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ConfigError(
                f"{self.path}: no trace of coli: {error}; write one with --trace"
            ) from None
        if header.version != VERSION:
            raise ConfigError(
                f"{self.path}: a trace of version {header.version}; this one reads {VERSION}"
            )
        if not _makes_sense(header):
            raise ContainerError(
                f"{self.path}: its first line is damaged: no model has such layers"
            )
        return header

    def _decode(self, body: bytes, at: int) -> Call:
        if len(body) < _SHAPE.size:
            raise self._damaged(at, "a record without a shape")
        rows, layer, k, experts, sequences = _SHAPE.unpack_from(body)
        counts = (sequences, rows * k, rows * k, rows * experts)
        sizes = [n * width for n, width in zip(counts, (4, 2, 4, 4), strict=True)]
        if len(body) != _SHAPE.size + sum(sizes):
            raise self._damaged(at, "a record of another size than its shape")
        parts, offset = [], _SHAPE.size
        for n, nbytes, kind in zip(counts, sizes, ("<u4", "<u2", "<f4", "<f4"), strict=True):
            parts.append(np.frombuffer(body, kind, n, offset))
            offset += nbytes
        ids = parts[1].astype(np.int32).reshape(rows, k)
        self._check(layer, ids, at)
        starts = parts[0].tolist()
        if starts[:1] != [0] or starts[-1] >= rows or sorted(set(starts)) != starts:
            raise self._damaged(at, "a record whose sequences are not among its rows")
        logits = parts[3].reshape(rows, experts) if experts else None
        return Call(layer, starts, ids, parts[2].reshape(rows, k), logits)

    def _check(self, layer: int, ids: I32, at: int) -> None:
        facts = self._layers.get(layer)
        if facts is None or ids.shape[1] != facts.k or not len(ids):
            raise self._damaged(at, f"layer {layer} is not as the header says")
        if ids.max() >= facts.experts:
            raise self._damaged(at, f"layer {layer} has no expert {ids.max()}")
        ordered = np.sort(ids, axis=1)
        if (ordered[:, 1:] == ordered[:, :-1]).any():
            raise self._damaged(at, f"layer {layer}: an expert is named twice in a row")

    def _damaged(self, at: int, what: str) -> ContainerError:
        return ContainerError(f"{self.path}: damaged at byte {at}: {what}")


def _makes_sense(header: Header) -> bool:
    """Whether the numbers are ones that a run writes: all that follows is computed with them."""
    numbers = [n.layer for n in header.layers]
    return (
        len(set(numbers)) == len(numbers)
        and all(0 <= n <= _MOST_ID for n in (*numbers, header.hidden_size))
        and 0 <= header.pair_buffer_bytes <= LARGEST_BYTES
        and all(
            1 <= n.k <= n.experts <= _MOST_ID + 1
            and n.slots >= 0
            and all(0 <= size <= LARGEST_BYTES for size in (n.expert_bytes, n.slot_bytes))
            for n in header.layers
        )
    )


def check_replaceable(path: Path) -> None:
    """A trace may replace a trace, or an empty file, and nothing else."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # a pipe would block
            raise ConfigError(f"--trace {shown(str(path))}: is no regular file; give another name")
        with open(path, "rb") as file:
            start = file.read(64)
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:
        raise ConfigError(f"--trace {shown(str(path))}: {reason(error)}") from None
    if start and not start.startswith(b'{"format":"colibri-trace"'):
        raise ConfigError(
            f"--trace {shown(str(path))}: the file exists and is no trace; give another name"
        )

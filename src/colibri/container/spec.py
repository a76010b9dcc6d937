"""The converted container, version 1: the expert record and its tail.

A record holds for each block of 16 inner rows the gate block then the up block (each [16, hidden]),
then the blocks of down (each [16, inner]), zero padding, and in its last 64 bytes the tail. Its
size is a multiple of 4096, and so is its place in the file.
"""

from __future__ import annotations

import math
import re
import struct
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import xxhash

from colibri.errors import ContainerError
from colibri.formats.packed import BLOCK_ROWS, PackedFormat

FORMAT_VERSION = 1
ALIGNMENT = 4096
LAYOUT = "r16-v1"
MANIFEST_NAME = "colibri.json"
JOURNAL_NAME = ".coli_convert.json"

RECORD_MAGIC = b"COLIREC1"
TAIL_BYTES = 64
# magic, layer, expert, multipliers of gate, up and down, zeros, xxh3-64 of all before it
_TAIL = struct.Struct("<8sII3f28sQ")
_HASH_BYTES = 8
_RECORD_NAME = re.compile(r"layers\.(0|[1-9]\d{0,8})\.experts\.(0|[1-9]\d{0,8})", re.ASCII)

U8 = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class RecordTail:
    layer: int
    expert: int
    multipliers: tuple[float, float, float]  # gate, up, down


def align(nbytes: int) -> int:
    """nbytes rounded up to ALIGNMENT."""
    return nbytes + -nbytes % ALIGNMENT


def down_offset(format: PackedFormat, hidden: int, inner: int) -> int:
    """Where the blocks of down begin in a record: after gate and up."""
    return 2 * -(-inner // BLOCK_ROWS) * format.block_bytes(hidden)


def body_bytes(format: PackedFormat, hidden: int, inner: int) -> int:
    """Bytes of gate, up and down in a record, without padding and tail."""
    return down_offset(format, hidden, inner) + format.nbytes(hidden, inner)


def record_bytes(format: PackedFormat, hidden: int, inner: int) -> int:
    return align(body_bytes(format, hidden, inner) + TAIL_BYTES)


def record_name(layer: int, expert: int) -> str:
    return f"layers.{layer}.experts.{expert}"


def parse_record_name(name: str) -> tuple[int, int] | None:
    """(layer, expert) of a record's tensor name."""
    found = _RECORD_NAME.fullmatch(name)
    return (int(found[1]), int(found[2])) if found else None


def pack_tail(record: U8, tail: RecordTail) -> None:
    """Write the tail into the last bytes of a complete record [record_bytes]."""
    fields = (RECORD_MAGIC, tail.layer, tail.expert, *tail.multipliers, bytes(28))
    record[-TAIL_BYTES:] = np.frombuffer(_TAIL.pack(*fields, 0), np.uint8)
    digest = xxhash.xxh3_64_intdigest(record[:-_HASH_BYTES].data)
    record[-TAIL_BYTES:] = np.frombuffer(_TAIL.pack(*fields, digest), np.uint8)


def parse_tail(tail: U8 | memoryview, layer: int, expert: int, where: str) -> RecordTail:
    """The tail (the last 64 bytes of a record) of this very expert, else ContainerError."""
    name = record_name(layer, expert)
    if len(tail) != TAIL_BYTES:
        raise ContainerError(f"{where}: {name}: a record tail of {len(tail)} bytes, not 64")
    magic, found_layer, found_expert, gate, up, down, _, _ = _TAIL.unpack(tail.tobytes())
    if magic != RECORD_MAGIC:
        raise ContainerError(f"{where}: {name}: no expert record here (its tail is missing)")
    if (found_layer, found_expert) != (layer, expert):
        found = record_name(found_layer, found_expert)
        raise ContainerError(f"{where}: {name}: the record here is that of {found}")
    multipliers = (gate, up, down)
    if not all(is_power_of_two(m) for m in multipliers):
        raise ContainerError(f"{where}: {name}: multipliers {multipliers} are no powers of two")
    return RecordTail(layer, expert, multipliers)


def verify_record(record: U8 | memoryview, layer: int, expert: int, where: str) -> RecordTail:
    """parse_tail of a whole record, and its hash checked."""
    tail = parse_tail(record[-TAIL_BYTES:], layer, expert, where)
    stored = int.from_bytes(record[-_HASH_BYTES:].tobytes(), "little")
    if xxhash.xxh3_64_intdigest(np.asarray(record)[:-_HASH_BYTES].data) != stored:
        raise ContainerError(
            f"{where}: {record_name(layer, expert)}: expert {expert} of layer {layer} is damaged: "
            "its checksum does not match; "
            "restore this file or convert the model again"
        )
    return tail


def is_power_of_two(value: float) -> bool:
    return math.isfinite(value) and math.frexp(value)[0] == 0.5

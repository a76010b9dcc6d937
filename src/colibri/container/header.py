"""Safetensors headers: every claim of a file is checked before it is believed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from colibri.container.files import opened, read_range, shown
from colibri.container.jsonfile import parse_json
from colibri.container.lookalike import is_text, looks_like
from colibri.errors import ContainerError
from colibri.words import count

MAX_HEADER_BYTES = 100_000_000
_PREFIX = 8  # the header's length, u64
_MAX_DIMS = 16
_KEYS = {"dtype", "shape", "data_offsets"}

# Bits an element, by safetensors name.
DTYPE_BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "U16": 16, "I16": 16, "U32": 32, "I32": 32, "U64": 64, "I64": 64,
    "F16": 16, "BF16": 16, "F32": 32, "F64": 64, "C64": 64,
    "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
    "F6_E2M3": 6, "F6_E3M2": 6, "F4": 4,
}  # fmt: skip


@dataclass(frozen=True)
class TensorInfo:
    """A tensor on disk; `offset` counts from the start of the file. `scales`: of fp8 weights, once
    they have been found (scaled.py)."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    file: Path
    offset: int
    nbytes: int
    scales: TensorInfo | None = None


def read_header(
    path: Path, *, cut_short: bool = False
) -> tuple[dict[str, TensorInfo], dict[str, str]]:
    """The tensors of a safetensors file and its metadata; ContainerError for any defect.

    cut_short: the data behind the header may be missing, in part or altogether.
    """
    with opened(path) as (fd, size):
        head = read_range(fd, path, 0, min(size, 512))
        length = _header_length(path, head, size)
        raw = parse_json(read_range(fd, path, _PREFIX, length), f"{path}: header")
    metadata = _metadata(path, raw.pop("__metadata__", {}))
    start = _PREFIX + length
    tensors = {name: _tensor(path, name, entry, start) for name, entry in raw.items()}
    _check_spans(path, tensors, start, size, cut_short)
    return tensors, metadata


def _header_length(path: Path, head: bytes, size: int) -> int:
    if size < _PREFIX:
        raise ContainerError(f"{path}: no safetensors file: {looks_like(head, size)}")
    length = int.from_bytes(head[:_PREFIX], "little")
    if head[_PREFIX : _PREFIX + 1] != b"{" or length < 2:
        raise ContainerError(f"{path}: no safetensors file: {looks_like(head, size)}")
    if length > MAX_HEADER_BYTES and is_text(head[:_PREFIX]):
        raise ContainerError(f"{path}: no safetensors file: {looks_like(head, size)}")
    if length > MAX_HEADER_BYTES:
        raise ContainerError(
            f"{path}: claims a header of {length} bytes; at most {MAX_HEADER_BYTES} are accepted"
        )
    if length > size - _PREFIX:
        raise ContainerError(
            f"{path}: claims a header of {length} bytes, but the file has {size}: "
            "cut short; download it again"
        )
    return length


def _metadata(path: Path, value: Any) -> dict[str, str]:
    if isinstance(value, dict) and all(isinstance(v, str) for v in value.values()):
        return value
    raise ContainerError(f"{path}: header: __metadata__ must map strings to strings")


def _tensor(path: Path, name: str, entry: Any, start: int) -> TensorInfo:
    defect = _defect(entry)
    if defect:
        raise ContainerError(f"{path}: tensor {shown(name)}: {defect}")
    begin, end = entry["data_offsets"]
    return TensorInfo(name, entry["dtype"], tuple(entry["shape"]), path, start + begin, end - begin)


def _defect(entry: Any) -> str:
    """What is wrong with a tensor's entry; empty for a sound one."""
    if not isinstance(entry, dict):
        return "its entry is no JSON object"
    if entry.keys() != _KEYS:
        return "its entry must hold dtype, shape and data_offsets only"
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in DTYPE_BITS:
        return f"unknown dtype {shown(str(dtype))}"
    for key, value in (("shape", shape), ("data_offsets", offsets)):
        if not _are_counts(value):
            return f"{key} must be a list of whole numbers from 0 to 2^63-1"
    if len(shape) > _MAX_DIMS:
        return f"{len(shape)} dimensions"
    if len(offsets) != 2 or offsets[0] > offsets[1]:
        return "data_offsets must be [begin, end] with begin <= end"
    bits = DTYPE_BITS[dtype] * math.prod(shape)  # Python's integers cannot overflow
    nbytes = offsets[1] - offsets[0]
    if bits != 8 * nbytes:
        return (
            f"{dtype} {shape} takes {count(-(-bits // 8), 'byte')}, but data_offsets span {nbytes}"
        )
    return ""


def _are_counts(value: Any) -> bool:
    # bool is an int to Python, but not here.
    return isinstance(value, list) and not [
        v for v in value if type(v) is not int or not 0 <= v < 1 << 63
    ]


def _check_spans(
    path: Path, tensors: dict[str, TensorInfo], start: int, size: int, cut_short: bool
) -> None:
    """In file order each tensor begins where the one before ends; the last ends the file."""
    end = start
    last: TensorInfo | None = None
    for t in sorted(tensors.values(), key=lambda t: (t.offset, t.nbytes)):
        if t.offset != end:
            defect = "overlaps" if t.offset < end else "leaves a hole after"
            raise ContainerError(f"{path}: tensor {shown(t.name)}: {defect} {_named(last)}")
        end, last = t.offset + t.nbytes, t
        if end > size and not cut_short:
            raise ContainerError(
                f"{path}: tensor {shown(t.name)}: ends at byte {end}, but the file has {size} "
                f"bytes: cut short by at least {end - size}; download it again"
            )
    if end < size:
        raise ContainerError(
            f"{path}: {count(size - end, 'byte')} after the last tensor ({_named(last)})"
        )


def _named(t: TensorInfo | None) -> str:
    return f"tensor {shown(t.name)}" if t else "the header"

"""What a mirror holds: copies of a model's shards under their names, and files of hot records.

A hot record is what an expert's reads bring, in the order of its slot: in a converted model its
record, in a checkpoint as downloaded the pages of its pieces. A file of them is a safetensors file
whose header is the index. Nothing here writes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import xxhash

from colibri.container.files import list_names, opened, read_range, shown
from colibri.container.header import MAX_HEADER_BYTES, TensorInfo, read_header
from colibri.container.layerexperts import LayerExperts, Span
from colibri.container.receipt import RECEIPT_NAME, files_of, read_receipt
from colibri.container.spec import ALIGNMENT, parse_record_name
from colibri.errors import ContainerError
from colibri.words import count

RECORDS_SUFFIX = ".colirec"
RECORDS_FORMAT = "colibri-hot-records-1"
_PAGE = 4096
_SAMPLES = 4  # pages that are compared of files whose sizes and headers agree

Key = tuple[int, int]  # layer, expert
Layers = Mapping[int, LayerExperts]


@dataclass(frozen=True)
class MirrorCopies:
    """What of a model lies in a directory, checked by size, header and a few pages."""

    directory: Path
    shards: Mapping[Path, Path]  # the model's file -> its copy
    records: Mapping[Key, tuple[Path, int]]  # file and offset of a hot record
    refused: Sequence[str] = ()  # files that do not fit, and why

    def spans(self, layer: LayerExperts, expert: int) -> tuple[Span, ...] | None:
        """Reads that bring into a slot what layer.reads(expert) does; None if not all is here."""
        spans = layer.reads(expert)
        if found := self.records.get((layer.layer, expert)):
            n = image_bytes(spans)
            return (Span(found[0], found[1], n, 0, n),)
        if any(span.file not in self.shards for span in spans):
            return None
        return tuple(replace(span, file=self.shards[span.file]) for span in spans)


def image_bytes(spans: Sequence[Span]) -> int:
    """Bytes of a slot that these reads fill."""
    return spans[-1].slot_offset + spans[-1].nbytes


def experts_by_file(layers: Layers) -> dict[Path, list[Key]]:
    """The model's files that hold routed experts, by name, with those that have a part in each."""
    files: dict[Path, list[Key]] = {}
    for number, layer in sorted(layers.items()):
        for expert in range(layer.num_experts):
            for file in {span.file for span in layer.reads(expert)}:
                files.setdefault(file, []).append((number, expert))
    return dict(sorted(files.items()))


def model_identity(layers: Layers) -> str:
    """Of the experts: where each lies, and some pages of every file, whatever directory it is in.
    Another model of the same shape has another one."""
    digest = xxhash.xxh3_128()
    for number, layer in sorted(layers.items()):
        digest.update(f"layer {number} {layer.num_experts} {layer.layout}\n".encode())
        for expert in range(layer.num_experts):
            for s in layer.reads(expert):
                place = f"{s.file.name} {s.offset} {s.nbytes} {s.slot_offset} {s.needed}\n"
                digest.update(place.encode())
    for file in sorted(experts_by_file(layers), key=lambda path: path.name):
        digest.update(_sample(file))
    return digest.hexdigest()


def survey(directory: Path, layers: Layers, identity: str) -> MirrorCopies:
    """The usable copies in a directory. Raises ContainerError if there are none, or no directory;
    a file that does not fit the model is left out, and named."""
    names = list_names(directory)
    refused: list[str] = []
    sizes: dict[str, int] = {}
    with _noting(refused):
        sizes = _receipted_sizes(directory)
    shards: dict[Path, Path] = {}
    for file in experts_by_file(layers):
        if file.name in names:
            with _noting(refused):
                shards[file] = _checked_copy(file, directory / file.name, sizes)
    records: dict[Key, tuple[Path, int]] = {}
    for path in (directory / name for name in names if name.endswith(RECORDS_SUFFIX)):
        with _noting(refused):
            _check_size(path, sizes)
            for key, info in read_records(path, layers, identity).items():
                records.setdefault(key, (path, info.offset))
    if not shards and not records:
        why = f": {refused[0]}" if refused else "; `coli mirror stage` makes one"
        raise ContainerError(f"{directory}: holds nothing of this model's experts{why}")
    return MirrorCopies(directory, shards, records, tuple(refused))


def read_records(path: Path, layers: Layers, identity: str) -> dict[Key, TensorInfo]:
    """The index of a file of hot records of this model. Raises ContainerError."""
    tensors, metadata = read_header(path)
    if metadata.get("format") != RECORDS_FORMAT:
        raise ContainerError(f"{path}: is no file of hot records that this colibri reads")
    if metadata.get("model") != identity:
        raise ContainerError(
            f"{path}: holds records of another model, or the model changed since it was staged"
        )
    found = {}
    for name, info in tensors.items():
        key = parse_record_name(name)
        layer = layers.get(key[0]) if key else None
        if key is None or layer is None or key[1] >= layer.num_experts:
            raise ContainerError(f"{path}: tensor {shown(name)}: the model has no such expert")
        expected = image_bytes(layer.reads(key[1]))
        if (info.dtype, info.nbytes) != ("U8", expected) or info.offset % ALIGNMENT:
            raise ContainerError(
                f"{path}: tensor {shown(name)}: {info.dtype} of {count(info.nbytes, 'byte')} at "
                f"{info.offset}; U8 of {expected} at a multiple of {ALIGNMENT} was expected"
            )
        found[key] = info
    return found


def header_bytes(path: Path) -> bytes:
    """A shard's header as it stands in the file, its length included."""
    with opened(path) as (fd, size):
        length = int.from_bytes(read_range(fd, path, 0, min(8, size)), "little")
        if not 0 < length <= min(size - 8, MAX_HEADER_BYTES):
            raise ContainerError(
                f"{path}: no safetensors header of {count(length, 'byte')} fits here"
            )
        return read_range(fd, path, 0, 8 + length)


def same_device(a: Path, b: Path) -> bool:
    """Whether both lie on one file system, so that a second copy brings no speed."""
    try:
        return os.stat(a).st_dev == os.stat(b).st_dev
    except OSError:
        return False


def _receipted_sizes(directory: Path) -> dict[str, int]:
    receipt = read_receipt(directory / RECEIPT_NAME)
    return {f.name: f.size for f in files_of(receipt)[0]} if receipt else {}


def _checked_copy(file: Path, copy: Path, sizes: Mapping[str, int]) -> Path:
    _check_size(copy, sizes)
    with opened(file) as (_, size), opened(copy) as (_, copied):
        if size != copied:
            raise ContainerError(f"{copy}: {count(copied, 'byte')}, but the model's has {size}")
    if header_bytes(file) != header_bytes(copy):
        raise ContainerError(f"{copy}: its header is not that of {file}")
    if _sample(file) != _sample(copy):
        raise ContainerError(f"{copy}: its content is not that of {file}")
    return copy


def _check_size(path: Path, sizes: Mapping[str, int]) -> None:
    with opened(path) as (_, size):
        if size != sizes.get(path.name, size):
            raise ContainerError(
                f"{path}: {count(size, 'byte')}, but the receipt says {sizes[path.name]}: cut "
                "short, or another file"
            )


def _sample(path: Path) -> bytes:
    """Name, size and some pages, the last one with them: there is the checksum of a record."""
    with opened(path) as (fd, size):
        digest = xxhash.xxh3_128(f"{path.name} {size}\n".encode())
        for i in range(1, _SAMPLES + 1):
            start = max(0, size * i // _SAMPLES - _PAGE)
            digest.update(read_range(fd, path, start, min(_PAGE, size - start)))
    return digest.digest()


@contextmanager
def _noting(refused: list[str]) -> Iterator[None]:
    try:
        yield
    except ContainerError as error:
        refused.append(str(error))

"""What `coli mirror stage` notes of the files it made: the receipt of a mirror, and the journal of
an unfinished one, which has the same form under another name."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import msgspec
import xxhash

from colibri.container.files import as_unicode
from colibri.container.jsonfile import read_json
from colibri.container.writer import write_file
from colibri.errors import ContainerError

RECEIPT_NAME = ".coli_mirror.json"
STAGING_NAME = ".coli_mirror_stage.json"
RECEIPT_VERSION = 1

FileKind = Literal["shard", "records"]


class MirrorFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file of a mirror: a copy of the model's shard of that name, or packed hot records."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=255, pattern=r"^[^/\\\x00]+$")]
    kind: FileKind
    size: Annotated[int, msgspec.Meta(ge=1, le=1 << 60)]
    sha256: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
    experts: Annotated[int, msgspec.Meta(ge=1, le=1 << 40)]


class Receipt(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`model` is model_identity() of what was copied; `writing` the file that a journal is at.

    `files` are checked one by one by whoever reads them, so that a bad one can be named.
    """

    version: int
    created: str  # UTC, when the first file was begun
    source: str  # the model's directory then: for people
    model: str
    files: list[msgspec.Raw]
    writing: str = ""
    checksum: str = ""  # xxh3-64 of the rest


def read_receipt(path: Path) -> Receipt | None:
    """The receipt or journal of that path; None if there is none. Raises ContainerError."""
    receipt = parse_receipt(path)
    if receipt is not None and not is_whole(receipt):
        raise ContainerError(
            f"{path}: its checksum does not match: damaged, or changed by hand; move it away, "
            "then verify with --model or stage again"
        )
    return receipt


def parse_receipt(path: Path) -> Receipt | None:
    """The same whatever its checksum says: for who tells what is wrong with it."""
    if not path.exists():
        return None
    raw = read_json(path)
    version = raw.get("version")
    if version != RECEIPT_VERSION or isinstance(version, bool):
        raise ContainerError(
            f"{path}: version {ascii(version)[:40]} is not one this colibri reads "
            f"({RECEIPT_VERSION}); a newer colibri may"
        )
    try:
        return msgspec.convert(_with_raw_files(raw), Receipt)
    except msgspec.ValidationError as error:
        raise ContainerError(f"{path}: is damaged: {ascii(str(error))[1:200]}") from None


def is_whole(receipt: Receipt) -> bool:
    return receipt.checksum == _checksum(receipt)


def files_of(receipt: Receipt) -> tuple[list[MirrorFile], list[str]]:
    """The entries that are sound, and what is wrong with each that is not."""
    files, defects = [], []
    for number, raw in enumerate(receipt.files, start=1):
        try:
            files.append(msgspec.json.decode(raw, type=MirrorFile))
        except msgspec.DecodeError as error:
            defects.append(f"entry {number}: {ascii(str(error))[1:200]}")
    return files, defects


def make_receipt(
    created: str, source: str, model: str, files: list[MirrorFile], writing: str = ""
) -> Receipt:
    raw = [msgspec.Raw(msgspec.json.encode(file)) for file in files]
    bare = Receipt(RECEIPT_VERSION, created, as_unicode(source), model, raw, writing)
    return msgspec.structs.replace(bare, checksum=_checksum(bare))


def write_receipt(path: Path, receipt: Receipt) -> None:
    """Aside, synced and renamed. Raises CapacityError, ContainerError."""
    data = msgspec.json.format(msgspec.json.encode(receipt), indent=1) + b"\n"
    write_file(path, [data], len(data))


def _checksum(receipt: Receipt) -> str:
    bare = msgspec.structs.replace(receipt, checksum="")
    return xxhash.xxh3_64_hexdigest(msgspec.json.format(msgspec.json.encode(bare), indent=-1))


def _with_raw_files(raw: dict[str, object]) -> dict[str, object]:
    files = raw.get("files")
    if not isinstance(files, list):
        return raw
    return raw | {"files": [msgspec.Raw(msgspec.json.encode(entry)) for entry in files]}

"""The manifest of a converted container, colibri.json."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from colibri.container.jsonfile import read_json
from colibri.container.spec import FORMAT_VERSION, LAYOUT, MANIFEST_NAME, down_offset
from colibri.errors import ContainerError
from colibri.formats.names import Scheme
from colibri.formats.packed import SCHEMES, PackedFormat

Size = Annotated[int, msgspec.Meta(ge=0, le=1 << 60)]
Dim = Annotated[int, msgspec.Meta(ge=1, le=1 << 40)]
LayerIndex = Annotated[int, msgspec.Meta(ge=0, le=100_000)]


class FileEntry(msgspec.Struct, frozen=True):
    name: str
    size: Size
    sha256: str
    tensors: Size = 0


class SourceFile(msgspec.Struct, frozen=True):
    name: str
    size: Size
    sha256: str | None = None


class Source(msgspec.Struct, frozen=True):
    repository: str | None = None
    revision: str | None = None
    files: list[SourceFile] = []


class Tool(msgspec.Struct, frozen=True):
    name: str
    version: str


class PartSpec(msgspec.Struct, frozen=True):
    """A matrix in every record of a layer; `shape` is the true one, without padding."""

    name: str
    offset: Size
    nbytes: Size
    scheme: Scheme
    layout: str
    shape: list[Dim]


class LayerSpec(msgspec.Struct, frozen=True):
    layer: LayerIndex
    num_experts: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]
    record_bytes: Size
    scheme: Scheme
    hidden: Dim
    inner: Dim
    parts: list[PartSpec]
    layout: Literal["r16-v1"] = "r16-v1"
    draft: bool = False

    @property
    def format(self) -> PackedFormat:
        return SCHEMES[self.scheme]


class PackedTensor(msgspec.Struct, frozen=True):
    """A trunk matrix stored packed: a U8 tensor of one dimension in its file."""

    name: str
    scheme: Scheme
    rows: Dim
    cols: Dim
    multiplier: Annotated[float, msgspec.Meta(gt=0)]
    layout: Literal["r16-v1"] = "r16-v1"

    @property
    def format(self) -> PackedFormat:
        return SCHEMES[self.scheme]


class Manifest(msgspec.Struct, frozen=True):
    format_version: int
    family: str
    source: Source
    quantization: dict[str, Any]
    packed: list[PackedTensor]
    experts: list[LayerSpec]
    files: list[FileEntry]
    tool: Tool
    params: dict[str, Any]


def record_parts(scheme: Scheme, hidden: int, inner: int) -> list[PartSpec]:
    """The parts of a record. Blocks of gate and up alternate, so the two are one part."""
    format = SCHEMES[scheme]
    down = down_offset(format, hidden, inner)
    return [
        PartSpec("gate_up", 0, down, scheme, f"{LAYOUT}-pairs", [2, inner, hidden]),
        PartSpec("down", down, format.nbytes(hidden, inner), scheme, LAYOUT, [hidden, inner]),
    ]


def manifest_bytes(manifest: Manifest) -> bytes:
    """The file's content: indented, so that a person can read it and a diff is small."""
    return msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n"


def read_manifest(directory: Path) -> Manifest:
    """The manifest of a converted container; an unknown format_version is refused by number."""
    path = directory / MANIFEST_NAME
    raw = read_json(path)
    version = raw.get("format_version")
    if version != FORMAT_VERSION or isinstance(version, bool):
        raise ContainerError(
            f"{path}: format_version {ascii(version)[:40]} is not one this colibri reads "
            f"({FORMAT_VERSION}); a newer colibri may, or convert the model again"
        )
    try:
        return msgspec.convert(raw, Manifest)
    except msgspec.ValidationError as e:
        # The message quotes the file, at any length, and names the field at its end.
        text = ascii(str(e))[1:-1]
        text = text if len(text) < 300 else f"{text[:100]}...{text[-150:]}"
        raise ContainerError(f"{path}: {text}") from None

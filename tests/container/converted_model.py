"""The tiny model as a converted container, written by hand (the real writer has its own tests)."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from tiny_model import (
    EXPERTS,
    HIDDEN,
    INNER,
    LAYERS,
    expert_tensors,
    trunk_tensors,
    write_config,
    write_tensors,
)

from colibri.container import spec
from colibri.container.manifest import (
    FileEntry,
    LayerSpec,
    Manifest,
    PackedTensor,
    Source,
    Tool,
    manifest_bytes,
    record_parts,
)
from colibri.formats.packed import INT4, INT8, pack_expert, pack_matrix

Arrays = dict[str, np.ndarray[Any, Any]]


def make_record(tensors: Arrays, layer: int, expert: int) -> np.ndarray[Any, Any]:
    prefix = f"model.layers.{layer}.experts.{expert}"
    parts = [tensors[f"{prefix}.{part}.weight"] for part in ("gate", "up", "down")]
    body, multipliers = pack_expert(*parts, INT4)
    record = np.zeros(spec.record_bytes(INT4, HIDDEN, INNER), np.uint8)
    record[: body.size] = body
    spec.pack_tail(record, spec.RecordTail(layer, expert, multipliers))
    return record


def file_entry(path: Path, tensors: int) -> FileEntry:
    data = path.read_bytes()
    return FileEntry(path.name, len(data), hashlib.sha256(data).hexdigest(), tensors)


def write_converted(directory: Path, packed: tuple[str, ...] = ()) -> Manifest:
    """Experts at int4; the trunk matrices named in `packed` at int8."""
    write_config(directory)
    trunk, packed_tensors = trunk_tensors(), []
    for name in packed:
        m = pack_matrix(trunk[name], INT8)
        packed_tensors.append(PackedTensor(name, m.format.name, m.rows, m.cols, m.multiplier))
        trunk[name] = m.data
    files = [
        file_entry(write_tensors(directory / "trunk-00001-of-00001.safetensors", trunk), len(trunk))
    ]
    layers, experts = [], expert_tensors()
    for n in range(LAYERS):
        records = {spec.record_name(n, e): make_record(experts, n, e) for e in range(EXPERTS)}
        path = directory / f"experts-L{n:05d}-00001-of-00001.safetensors"
        files.append(file_entry(write_tensors(path, records, align=4096), EXPERTS))
        layers.append(layer_spec(n))
    manifest = Manifest(
        spec.FORMAT_VERSION, "tiny", Source(), {}, packed_tensors, layers, files,
        Tool("colibri", "0"), {},
    )  # fmt: skip
    write_manifest(directory, manifest)
    return manifest


def layer_spec(layer: int) -> LayerSpec:
    size = spec.record_bytes(INT4, HIDDEN, INNER)
    parts = record_parts("int4-gs64", HIDDEN, INNER)
    return LayerSpec(layer, EXPERTS, size, "int4-gs64", HIDDEN, INNER, parts)


def write_manifest(directory: Path, manifest: Manifest, **changes: Any) -> None:
    data = manifest_bytes(msgspec.structs.replace(manifest, **changes))
    (directory / spec.MANIFEST_NAME).write_bytes(data)


def rewrite_file(
    directory: Path, manifest: Manifest, name: str, tensors: Arrays, align: int = 1
) -> None:
    """Put other tensors into a file, with a manifest that agrees about the file itself."""
    entry = file_entry(write_tensors(directory / name, tensors, align), len(tensors))
    files = [entry if f.name == name else f for f in manifest.files]
    write_manifest(directory, manifest, files=files)

"""A converted container: the manifest, and that the files are what it says."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from colibri.container.files import shown
from colibri.container.header import TensorInfo, read_header
from colibri.container.layerexperts import LayerExperts, from_records
from colibri.container.manifest import (
    FileEntry,
    LayerSpec,
    Manifest,
    PackedTensor,
    read_manifest,
    record_parts,
)
from colibri.container.scaled import paired
from colibri.container.spec import (
    ALIGNMENT,
    MANIFEST_NAME,
    is_power_of_two,
    parse_record_name,
    record_bytes,
    record_name,
)
from colibri.container.spread import SUFFIX, find_shards
from colibri.container.trunkinfo import (
    Trunk,
    TrunkInfo,
    TrunkTensor,
    check_required,
    classify_all,
    unpacked,
)
from colibri.container.weights import ExpertShape, Match, WeightMap
from colibri.errors import ContainerError
from colibri.words import count

Records = dict[tuple[int, int], TensorInfo]


def read_converted(
    path: Path, weights: WeightMap, others: Sequence[Path] = (), *, cut_short: bool = False
) -> tuple[Trunk, dict[int, LayerExperts]]:
    """The trunk and the expert layers of a directory with a manifest.

    others: directories with more of its files. cut_short: files may end behind their header.
    """
    manifest = read_manifest(path)
    tensors = _tensors(path, manifest, find_shards(path, others), cut_short)
    records = {key: t for name, t in tensors.items() if (key := parse_record_name(name))}
    rest = {n: t for n, t in tensors.items() if parse_record_name(n) is None}
    trunk = _trunk(path, manifest, paired(rest), weights)
    check_required(trunk, weights, path)
    return trunk, _layers(path, manifest, records, weights.experts)


def _tensors(
    path: Path, manifest: Manifest, found: Mapping[str, Path], cut_short: bool
) -> dict[str, TensorInfo]:
    tensors: dict[str, TensorInfo] = {}
    for entry in manifest.files:
        if not entry.name.endswith(SUFFIX):
            continue
        for name, info in _file(path, entry, found, cut_short).items():
            other = tensors.setdefault(name, info)
            if other is not info:
                raise ContainerError(
                    f"{path}: tensor {shown(name)} is in both {other.file.name} and {entry.name}"
                )
    return tensors


def _file(
    path: Path, entry: FileEntry, shards: Mapping[str, Path], cut_short: bool
) -> dict[str, TensorInfo]:
    if re.search(r"[/\\\0]", entry.name):
        raise ContainerError(f"{path / MANIFEST_NAME}: {shown(entry.name)} is no file name")
    file = shards.get(entry.name, path / entry.name)
    found, _ = read_header(file, cut_short=cut_short)
    size = max((t.offset + t.nbytes for t in found.values()), default=None)
    if size not in (None, entry.size):
        raise ContainerError(f"{file}: {size} bytes, but the manifest says {entry.size}")
    if len(found) != entry.tensors:
        raise ContainerError(
            f"{file}: {count(len(found), 'tensor')}, but the manifest says {entry.tensors}"
        )
    return found


def _trunk(
    path: Path, manifest: Manifest, tensors: Mapping[str, TensorInfo], weights: WeightMap
) -> Trunk:
    packed = {p.name: p for p in manifest.packed}
    where = f"{path / MANIFEST_NAME}: packed"
    for p in manifest.packed:
        if p.name not in tensors:
            raise ContainerError(f"{where}: tensor {shown(p.name)} is in no file")
        if packed[p.name] is not p:
            raise ContainerError(f"{where}: tensor {shown(p.name)} is listed twice")
    return {
        t.name: _trunk_tensor(t, match, packed.get(t.name))
        for t, match in classify_all(tensors.values(), weights, path)
    }


def _trunk_tensor(t: TensorInfo, match: Match, spec: PackedTensor | None) -> TrunkTensor:
    where = f"{t.file}: tensor {shown(t.name)}"
    if match.rule.role != "trunk":
        raise ContainerError(f"{where}: not part of the trunk of a converted model")
    if spec is None:
        if t.dtype == "U8":
            raise ContainerError(f"{where}: U8, but not listed as packed in the manifest")
        return unpacked(t)
    if match.rule.kind not in ("linear", "embedding"):
        raise ContainerError(f"{where}: stored packed, but must be exact")
    return _packed(t, spec, where)


def _packed(t: TensorInfo, spec: PackedTensor, where: str) -> TrunkTensor:
    expected = spec.format.nbytes(spec.rows, spec.cols)
    if (t.dtype, t.shape) != ("U8", (expected,)):
        raise ContainerError(
            f"{where}: {t.dtype} {list(t.shape)}; {spec.scheme} [{spec.rows}, {spec.cols}] takes "
            f"U8 [{expected}]"
        )
    if not is_power_of_two(spec.multiplier):
        raise ContainerError(f"{where}: multiplier {spec.multiplier} is no power of two")
    shape = (spec.rows, spec.cols)
    info = TrunkInfo(t.name, spec.format, shape, t.nbytes, spec.multiplier)
    return TrunkTensor(info, t.file, t.offset)


def _layers(
    path: Path, manifest: Manifest, records: Records, shapes: Mapping[int, ExpertShape]
) -> dict[int, LayerExperts]:
    specs = {spec.layer: spec for spec in manifest.experts}
    where = path / MANIFEST_NAME
    if len(specs) < len(manifest.experts):
        raise ContainerError(f"{where}: a layer's experts are listed twice")
    missing = [n for n, s in shapes.items() if n not in specs and not s.draft]
    if missing:
        raise ContainerError(f"{where}: the experts of layer {missing[0]} are missing")
    for layer, expert in records:
        if layer not in specs or expert >= specs[layer].num_experts:
            t = records[layer, expert]
            raise ContainerError(
                f"{t.file}: tensor {shown(t.name)}: the manifest knows no such expert"
            )
    layers = {}
    for layer in sorted(specs):
        _check_spec(str(where), specs[layer], shapes.get(layer))
        layers[layer] = from_records(specs[layer], _records(path, specs[layer], records))
    return layers


def _check_spec(where: str, spec: LayerSpec, shape: ExpertShape | None) -> None:
    found = (spec.num_experts, spec.hidden, spec.inner, spec.draft)
    by_config = shape and (shape.num_experts, shape.hidden, shape.inner, shape.draft)
    if found != by_config:
        raise ContainerError(
            f"{where}: layer {spec.layer}: experts, hidden, inner, draft are {found}, but by "
            f"config.json {by_config}"
        )
    expected = record_bytes(spec.format, spec.hidden, spec.inner)
    if spec.record_bytes != expected:
        raise ContainerError(
            f"{where}: layer {spec.layer}: records of {spec.record_bytes} bytes; {spec.scheme} "
            f"takes {expected}"
        )
    if spec.parts != record_parts(spec.scheme, spec.hidden, spec.inner):
        raise ContainerError(f"{where}: layer {spec.layer}: parts contradict its scheme and shape")


def _records(path: Path, spec: LayerSpec, records: Records) -> list[TensorInfo]:
    found = []
    for expert in range(spec.num_experts):
        t = records.get((spec.layer, expert))
        if t is None:
            name = record_name(spec.layer, expert)
            raise ContainerError(f"{path}: the expert record {name} is in no file")
        if (t.dtype, t.shape) != ("U8", (spec.record_bytes,)) or t.offset % ALIGNMENT:
            raise ContainerError(
                f"{t.file}: tensor {shown(t.name)}: {t.dtype} {list(t.shape)} at byte {t.offset}; "
                f"U8 [{spec.record_bytes}] at a multiple of {ALIGNMENT} was expected"
            )
        found.append(t)
    return found

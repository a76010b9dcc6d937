"""The manifest of a finished conversion."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from colibri.container.dtypes import weight_format
from colibri.container.manifest import (
    FileEntry,
    LayerSpec,
    Manifest,
    PackedTensor,
    Source,
    SourceFile,
    Tool,
    record_parts,
)
from colibri.container.spec import FORMAT_VERSION
from colibri.convert.journal import Finished, Inventory, Journal
from colibri.convert.plan import ExpertShard, Plan, TrunkShard
from colibri.convert.policy import Policy


def build_manifest(plan: Plan, policy: Policy, journal: Journal, inventory: Inventory) -> Manifest:
    counts = {s.name: s.count for s in plan.shards}
    files = [
        FileEntry(name, entry.size, entry.sha256, counts.get(name, 0))
        for name, entry in sorted(journal.finished.items())
    ]
    return Manifest(
        format_version=FORMAT_VERSION,
        family=journal.params["family"],
        source=Source(files=[SourceFile(f.name, f.size) for f in inventory.files]),
        quantization={**policy.quantization(), "source": _source_dtypes(plan)},
        packed=[p for s in plan.trunk for p in _packed(s, journal.finished[s.name])],
        experts=_layers(plan.experts),
        files=files,
        tool=Tool("colibri", _version()),
        params=dict(journal.params),
    )


def _source_dtypes(plan: Plan) -> dict[str, list[str]]:
    """What the weights were before."""
    experts = {weight_format(t).name for s in plan.experts for t in s.source.tensors.values()}
    tensors = [t.info for s in plan.trunk for t in s.tensors]
    scales = {t.scales.name for t in tensors if t.scales}
    trunk = {weight_format(t).name for t in tensors if t.name not in scales}
    return {"experts": sorted(experts), "trunk": sorted(trunk)}


def _packed(shard: TrunkShard, finished: Finished) -> list[PackedTensor]:
    packed = []
    for t in shard.tensors:
        if t.scheme:
            rows, cols = t.info.shape
            multiplier = finished.multipliers[t.info.name]
            packed.append(PackedTensor(t.info.name, t.scheme, rows, cols, multiplier))
    return packed


def _layers(shards: tuple[ExpertShard, ...]) -> list[LayerSpec]:
    first = {s.source.layer: s for s in reversed(shards)}
    return [_layer(first[layer]) for layer in sorted(first)]


def _layer(shard: ExpertShard) -> LayerSpec:
    shape = shard.source.shape
    return LayerSpec(
        layer=shard.source.layer,
        num_experts=shape.num_experts,
        record_bytes=shard.record_bytes,
        scheme=shard.scheme,
        hidden=shape.hidden,
        inner=shape.inner,
        parts=record_parts(shard.scheme, shape.hidden, shape.inner),
        draft=shape.draft,
    )


def _version() -> str:
    try:
        return version("colibri-moe")
    except PackageNotFoundError:
        return "unknown"

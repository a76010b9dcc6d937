"""The outputs of a conversion, in order: what each holds, its exact size, which files it needs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from colibri.container.header import TensorInfo
from colibri.container.spec import FORMAT_VERSION, record_bytes, record_name
from colibri.container.weights import Kind
from colibri.container.writer import OutTensor, shard_header
from colibri.convert.policy import Policy
from colibri.convert.selection import Selection
from colibri.convert.source import NUMPY_DTYPES, LayerSource, files_of
from colibri.formats.names import Scheme
from colibri.formats.packed import SCHEMES

MAX_SHARD_BYTES = 2 << 30
# Tools that open safetensors files through transformers look for "format".
_METADATA = {"format": "pt", "colibri": str(FORMAT_VERSION)}


@dataclass(frozen=True)
class TrunkTensor:
    info: TensorInfo
    scheme: Scheme | None  # None: bytes as in the source

    @cached_property
    def out(self) -> OutTensor:
        if self.scheme is None:
            return OutTensor(self.info.name, self.info.dtype, self.info.shape, self.info.nbytes)
        rows, cols = self.info.shape
        size = SCHEMES[self.scheme].nbytes(rows, cols)
        return OutTensor(self.info.name, "U8", (size,), size)


@dataclass(frozen=True)
class TrunkShard:
    name: str
    tensors: tuple[TrunkTensor, ...]

    @cached_property
    def header(self) -> bytes:
        return shard_header([t.out for t in self.tensors], _METADATA)

    @property
    def size(self) -> int:
        return len(self.header) + sum(t.out.nbytes for t in self.tensors)

    @property
    def count(self) -> int:
        return len(self.tensors)

    @cached_property
    def source_bytes(self) -> int:
        return sum(_read_bytes(t) for t in self.tensors)

    @cached_property
    def source_files(self) -> frozenset[str]:
        return frozenset(name for t in self.tensors for name in files_of(t.info))


@dataclass(frozen=True)
class ExpertShard:
    name: str
    source: LayerSource
    scheme: Scheme
    experts: range

    @property
    def record_bytes(self) -> int:
        return record_bytes(SCHEMES[self.scheme], self.source.shape.hidden, self.source.shape.inner)

    @cached_property
    def header(self) -> bytes:
        size, layer = self.record_bytes, self.source.layer
        outs = [OutTensor(record_name(layer, e), "U8", (size,), size) for e in self.experts]
        return shard_header(outs, _METADATA)

    @property
    def size(self) -> int:
        return len(self.header) + self.count * self.record_bytes

    @property
    def count(self) -> int:
        return len(self.experts)

    @cached_property
    def source_bytes(self) -> int:
        return sum(m.nbytes for e in self.experts for m in self.source.matrices(e))

    @cached_property
    def source_files(self) -> frozenset[str]:
        matrices = (m for e in self.experts for m in self.source.matrices(e))
        return frozenset(name for m in matrices for name in m.files)


Shard = TrunkShard | ExpertShard


@dataclass(frozen=True)
class Plan:
    """The trunk comes first: its tensors are spread over all source shards, which can then be
    deleted one by one as the layers are done."""

    trunk: tuple[TrunkShard, ...]
    experts: tuple[ExpertShard, ...]

    @property
    def shards(self) -> tuple[Shard, ...]:
        return (*self.trunk, *self.experts)


def make_plan(selection: Selection, policy: Policy) -> Plan:
    """Depends on the tensors only, not on the files they lie in."""
    tensors = [
        tensor
        for info, kind in sorted(selection.trunk, key=_natural)
        for tensor in _stored(info, policy.trunk_scheme(info, kind))
    ]
    experts = [s for layer in selection.layers for s in _layer_shards(layer, policy)]
    return Plan(tuple(_trunk_shards(tensors)), tuple(experts))


def _stored(info: TensorInfo, scheme: Scheme | None) -> list[TrunkTensor]:
    """With its scales, where it stays fp8."""
    scales = [TrunkTensor(info.scales, None)] if info.scales and scheme is None else []
    return [TrunkTensor(info, scheme), *scales]


def _read_bytes(tensor: TrunkTensor) -> int:
    """Scales of what is packed are read with it; others are tensors of their own."""
    scales = tensor.info.scales if tensor.scheme else None
    return tensor.info.nbytes + (scales.nbytes if scales else 0)


def _natural(item: tuple[TensorInfo, Kind]) -> tuple[list[tuple[int, str]], str]:
    """Layer 2 before layer 10."""
    name = item[0].name
    pieces = re.split(r"([0-9]+)", name)
    return [(int(p), "") if i % 2 else (0, p) for i, p in enumerate(pieces)], name


def _trunk_shards(tensors: Iterable[TrunkTensor]) -> list[TrunkShard]:
    groups = _fill(tensors, lambda t: t.out.nbytes)
    return [
        TrunkShard(
            f"trunk-{number:05}-of-{len(groups):05}.safetensors",
            tuple(sorted(group, key=_alignment, reverse=True)),
        )
        for number, group in enumerate(groups, 1)
    ]


def _fill(
    tensors: Iterable[TrunkTensor], size: Callable[[TrunkTensor], int]
) -> list[list[TrunkTensor]]:
    groups: list[list[TrunkTensor]] = []
    room = 0
    for tensor in tensors:
        if not groups or size(tensor) > room:
            groups.append([])
            room = MAX_SHARD_BYTES
        groups[-1].append(tensor)
        room -= size(tensor)
    return groups


def _alignment(tensor: TrunkTensor) -> int:
    """Wider elements first, so that every tensor starts at a multiple of its element's size."""
    return 64 if tensor.scheme else NUMPY_DTYPES[tensor.info.dtype].itemsize


def _layer_shards(source: LayerSource, policy: Policy) -> Sequence[ExpertShard]:
    shape = source.shape
    scheme = policy.expert_scheme(shape)
    record = record_bytes(SCHEMES[scheme], shape.hidden, shape.inner)
    per_shard = max(1, MAX_SHARD_BYTES // record)
    total = -(-shape.num_experts // per_shard)
    return [
        ExpertShard(
            f"experts-L{source.layer:05}-{number + 1:05}-of-{total:05}.safetensors",
            source,
            scheme,
            range(number * per_shard, min((number + 1) * per_shard, shape.num_experts)),
        )
        for number in range(total)
    ]

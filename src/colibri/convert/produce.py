"""The bytes of an output shard, a few MB at a time."""

from __future__ import annotations

from collections.abc import Generator, Iterator

import numpy as np

from colibri.container.spec import RecordTail, pack_tail
from colibri.container.writer import Chunk
from colibri.convert.pipeline import ahead
from colibri.convert.plan import ExpertShard, TrunkShard, TrunkTensor
from colibri.convert.source import MatrixSlice, SourceFiles, Weights, check_finite
from colibri.kernels.packing import (
    NonFiniteError,
    ScaleRange,
    Scheme,
    multiplier_for,
    pack,
    pack_expert,
    packed_bytes,
    scale_range,
)

Loaded = tuple[int, tuple[MatrixSlice, ...], list[Weights]]


def trunk_chunks(shard: TrunkShard, multipliers: dict[str, float]) -> Generator[Chunk]:
    """Header and tensors; the multiplier of each packed tensor is put into `multipliers`."""
    yield shard.header
    with SourceFiles() as files:
        for tensor in shard.tensors:
            if tensor.scheme is None:
                yield from _as_stored(files, tensor)
            else:
                multiplier = _multiplier(files, tensor, tensor.scheme)
                multipliers[tensor.info.name] = multiplier
                yield from _packed(files, tensor, tensor.scheme, multiplier)


def _as_stored(files: SourceFiles, tensor: TrunkTensor) -> Iterator[Chunk]:
    seen = 0
    for block in files.flat_blocks(tensor.info):
        check_finite(tensor.info, block, seen)
        seen += block.size
        yield block.view(np.uint8)


def _multiplier(files: SourceFiles, tensor: TrunkTensor, scheme: Scheme) -> float:
    """One for the whole matrix, so its scales are looked at before the first row is packed."""
    smallest, largest, seen = float("inf"), 0.0, 0
    for block in files.row_blocks(tensor.info):
        check_finite(tensor.info, block, seen)
        seen += block.size
        found = scale_range(block, scheme)
        smallest = min(smallest, found.smallest)
        largest = max(largest, found.largest)
    return multiplier_for(ScaleRange(smallest, largest))


def _packed(
    files: SourceFiles, tensor: TrunkTensor, scheme: Scheme, multiplier: float
) -> Iterator[Chunk]:
    for block in files.row_blocks(tensor.info):
        out = np.empty(packed_bytes(scheme, *block.shape), np.uint8)
        pack(block, scheme, multiplier, out)
        yield out


def expert_chunks(shard: ExpertShard) -> Generator[Chunk]:
    """Header and records. The next experts are read while one is packed."""
    yield shard.header
    loaded = ahead(_load(shard))
    try:
        for expert, slices, matrices in loaded:
            yield _record(shard, expert, slices, matrices)
    finally:
        loaded.close()


def _load(shard: ExpertShard) -> Generator[Loaded]:
    with SourceFiles() as files:
        for expert in shard.experts:
            slices = shard.source.matrices(expert)
            yield expert, slices, [files.matrix(s) for s in slices]


def _record(
    shard: ExpertShard, expert: int, slices: tuple[MatrixSlice, ...], matrices: list[Weights]
) -> Chunk:
    gate, up, down = matrices
    try:
        body, multipliers = pack_expert(gate, up, down, shard.scheme)
    except NonFiniteError:
        for part, weights in zip(slices, matrices, strict=True):
            before = (part.offset - part.info.offset) // weights.itemsize
            check_finite(part.info, weights, before)
        raise
    record = np.zeros(shard.record_bytes, np.uint8)
    record[: len(body)] = body
    pack_tail(record, RecordTail(shard.source.layer, expert, multipliers))
    return record

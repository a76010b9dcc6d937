"""The bytes of an output shard, a few MB at a time."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator

import numpy as np

from colibri.container.spec import RecordTail, body_bytes, down_offset, pack_tail
from colibri.container.writer import Chunk
from colibri.convert.plan import ExpertShard, TrunkShard, TrunkTensor
from colibri.convert.source import (
    MatrixSlice,
    Piece,
    Source,
    Weights,
    check_finite,
    flat_pieces,
    floats,
    naming_the_element,
    row_pieces,
    whole,
)
from colibri.formats.base import U8, Matrix
from colibri.formats.packed import (
    BLOCK_ROWS,
    NO_SCALES,
    SCHEMES,
    PackedFormat,
    ScaleRange,
    multiplier_for,
    scale_range,
    try_pack,
)

# The multiplier of a matrix depends on all of it, and stands before its bytes are of use. Up to
# this size a matrix is packed with the usual multiplier and held until that is known to be right;
# larger ones are read twice.
_HELD_BYTES = 64 << 20

Read = tuple[Piece, Weights]


def trunk_chunks(shard: TrunkShard, multipliers: dict[str, float]) -> Generator[Chunk]:
    """Header and tensors; the multiplier of each packed tensor is put into `multipliers`."""
    yield shard.header
    pieces = [p for t in shard.tensors for p in _pieces_of(t)]
    with contextlib.closing(Source()) as source, _reading(source, pieces) as reads:
        for tensor in shard.tensors:
            if tensor.scheme is None:
                yield from _as_stored(tensor, reads)
            else:
                multiplier, chunks = _packed(source, tensor, SCHEMES[tensor.scheme], reads)
                multipliers[tensor.info.name] = multiplier
                yield from chunks


def _pieces_of(tensor: TrunkTensor) -> list[Piece]:
    """What is read of a tensor in the usual case, in order."""
    if tensor.scheme is None:
        return _pieces_as_stored(tensor)
    pieces = list(row_pieces(whole(tensor.info)))
    return pieces if tensor.out.nbytes <= _HELD_BYTES else 2 * pieces


@contextlib.contextmanager
def _reading(source: Source, pieces: list[Piece]) -> Iterator[Iterator[Read]]:
    with contextlib.closing(source.read_all(pieces)) as weights:
        yield zip(pieces, weights, strict=True)


def _as_stored(tensor: TrunkTensor, reads: Iterator[Read]) -> Iterator[Chunk]:
    for _ in _pieces_as_stored(tensor):
        piece, weights = next(reads)
        check_finite(piece, weights)
        stored = weights.data if isinstance(weights, Matrix) else weights
        yield stored.reshape(-1).view(np.uint8)


def _pieces_as_stored(tensor: TrunkTensor) -> list[Piece]:
    info = tensor.info
    return list(flat_pieces(info) if info.scales is None else row_pieces(whole(info)))


def _packed(
    source: Source, tensor: TrunkTensor, format: PackedFormat, reads: Iterator[Read]
) -> tuple[float, Iterator[Chunk]]:
    """The multiplier and, once that is known, the packed bytes."""
    count = sum(1 for _ in row_pieces(whole(tensor.info)))
    total, held = NO_SCALES, []
    for _ in range(count):
        piece, weights = next(reads)
        if tensor.out.nbytes <= _HELD_BYTES:
            packed, found = _pack_piece(piece, weights, format, 1.0)
            held.append(packed)
        else:
            with naming_the_element(piece):
                found = scale_range(floats(weights), format)
        total = total.merged(found)
    multiplier = multiplier_for(total)
    if not held:
        again = (next(reads) for _ in range(count))
    elif multiplier != 1.0:
        again = ((p, source.read(p)) for p in row_pieces(whole(tensor.info)))
    else:
        return multiplier, iter(held)
    return multiplier, (_pack_piece(p, w, format, multiplier)[0] for p, w in again)


def _pack_piece(
    piece: Piece, weights: Weights, format: PackedFormat, multiplier: float
) -> tuple[U8, ScaleRange]:
    out = np.empty(format.nbytes(piece.rows, piece.cols), np.uint8)
    return out, _pack(piece, weights, format, multiplier, out)


def _pack(
    piece: Piece, weights: Weights, format: PackedFormat, multiplier: float, out: U8
) -> ScaleRange:
    with naming_the_element(piece):
        return try_pack(floats(weights), format, multiplier, out)


def expert_chunks(shard: ExpertShard) -> Generator[Chunk]:
    """Header and records. The next pieces are read while one is packed."""
    yield shard.header
    matrices = [shard.source.matrices(e) for e in shard.experts]
    pieces = [p for three in matrices for m in three for p in row_pieces(m)]
    with contextlib.closing(Source()) as source, _reading(source, pieces) as reads:
        for expert, three in zip(shard.experts, matrices, strict=True):
            yield _record(source, shard, expert, three, reads)


def _record(
    source: Source,
    shard: ExpertShard,
    expert: int,
    matrices: tuple[MatrixSlice, MatrixSlice, MatrixSlice],
    reads: Iterator[Read],
) -> Chunk:
    """A record. Blocks of gate and up alternate, so that the thread that computed both can apply
    SwiGLU; the blocks of down follow."""
    format, shape = SCHEMES[shard.scheme], shard.source.shape
    hidden, inner = shape.hidden, shape.inner
    record = np.empty(shard.record_bytes, np.uint8)
    middle, end = down_offset(format, hidden, inner), body_bytes(format, hidden, inner)
    record[end:] = 0
    pairs = record[:middle].reshape(-1, 2, format.block_bytes(hidden))
    down = record[middle:end].reshape(-1, format.block_bytes(inner))
    targets = (pairs[:, 0], pairs[:, 1], down)
    gate_up_down = [
        _fill(source, m, format, target, reads) for m, target in zip(matrices, targets, strict=True)
    ]
    pack_tail(record, RecordTail(shard.source.layer, expert, tuple(gate_up_down)))  # type: ignore[arg-type]
    return record


def _fill(
    source: Source, matrix: MatrixSlice, format: PackedFormat, target: U8, reads: Iterator[Read]
) -> float:
    """Pack a matrix into target [row blocks, bytes], whose blocks may lie apart; its multiplier."""

    def pack_all(multiplier: float, reads: Iterator[Read]) -> ScaleRange:
        total = NO_SCALES
        for piece, weights in reads:
            first = piece.first_row // BLOCK_ROWS
            blocks = target[first : first - (-piece.rows // BLOCK_ROWS)]
            total = total.merged(_pack_blocks(piece, weights, format, multiplier, blocks))
        return total

    usual = (next(reads) for _ in row_pieces(matrix))
    multiplier = multiplier_for(pack_all(1.0, usual))
    if multiplier != 1.0:
        pack_all(multiplier, ((p, source.read(p)) for p in row_pieces(matrix)))
    return multiplier


def _pack_blocks(
    piece: Piece, weights: Weights, format: PackedFormat, multiplier: float, blocks: U8
) -> ScaleRange:
    if blocks.flags.c_contiguous:
        return _pack(piece, weights, format, multiplier, blocks.reshape(-1))
    packed, found = _pack_piece(piece, weights, format, multiplier)
    blocks[:] = packed.reshape(blocks.shape)
    return found

"""How to bring one expert of a layer into memory: the reads, and where its parts land."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from colibri.container.header import TensorInfo
from colibri.container.manifest import LayerSpec
from colibri.container.pieces import ExpertPieces, Piece
from colibri.container.scaled import ScaleGrid
from colibri.container.spec import ALIGNMENT, align, down_offset
from colibri.kernels.moe import ExpertLayout

# Reading across a smaller gap costs less than a second read.
MERGE_GAP = 64 << 10


@dataclass(frozen=True, slots=True)
class Span:
    """One read into a slot. offset, nbytes and slot_offset are multiples of 4096, for O_DIRECT.

    Of the nbytes the first `needed` must exist: the file may end inside the last page.
    """

    file: Path
    offset: int
    nbytes: int
    slot_offset: int
    needed: int


@dataclass(frozen=True)
class LayerExperts:
    """The routed experts of one layer.

    `slot_bytes`, a multiple of 4096, holds any of them. With `record` a slot holds a packed record,
    whose tail (its last 64 bytes) names the expert and carries the multipliers.
    """

    layer: int
    num_experts: int
    layout: ExpertLayout
    slot_bytes: int
    record: bool
    draft: bool
    spans: tuple[tuple[Span, ...], ...]  # [expert]
    offsets: tuple[tuple[int, ...], ...]  # [expert], or a single entry that holds for all

    def reads(self, expert: int) -> tuple[Span, ...]:
        """The reads that fill a slot with the expert."""
        return self.spans[expert]

    def parts(self, expert: int) -> tuple[int, ...]:
        """Offsets in the slot: gate, up, down and of fp8 their scales; in a record 0, 0, the blocks
        of down."""
        return self.offsets[0 if self.record else expert]


class MaybeDraft(Protocol):
    @property
    def draft(self) -> bool: ...


L = TypeVar("L", bound=MaybeDraft)


def main_layers(layers: Mapping[int, L]) -> dict[int, L]:
    """Those that run: what a draft layer has is never asked for."""
    return {n: layer for n, layer in layers.items() if not layer.draft}


def from_records(spec: LayerSpec, records: Sequence[TensorInfo]) -> LayerExperts:
    """A converted layer; records[e] is a checked record of expert e."""
    n = spec.record_bytes
    return LayerExperts(
        layer=spec.layer,
        num_experts=spec.num_experts,
        layout=ExpertLayout(spec.format, spec.hidden, spec.inner),
        slot_bytes=n,
        record=True,
        draft=spec.draft,
        spans=tuple((Span(r.file, r.offset, n, 0, n),) for r in records),
        offsets=((0, 0, down_offset(spec.format, spec.hidden, spec.inner)),),
    )


def from_pieces(layer: int, experts: Sequence[ExpertPieces], draft: bool) -> LayerExperts:
    """A layer as downloaded."""
    gate, up, _ = experts[0]
    placed = [_place(pieces) for pieces in experts]
    return LayerExperts(
        layer=layer,
        num_experts=len(experts),
        layout=ExpertLayout(gate.format, gate.cols, gate.rows, up.scales.first if up.scales else 0),
        slot_bytes=max(sum(s.nbytes for s in spans) for spans, _ in placed),
        record=False,
        draft=draft,
        spans=tuple(spans for spans, _ in placed),
        offsets=tuple(offsets for _, offsets in placed),
    )


def _place(pieces: ExpertPieces) -> tuple[tuple[Span, ...], tuple[int, ...]]:
    """As few page-aligned reads as the layout allows, and where the matrices and scales land."""
    spans: list[Span] = []
    offsets: dict[int, int] = {}
    parts: list[Piece | ScaleGrid] = [*pieces, *(p.scales for p in pieces if p.scales)]
    for run in _runs(parts):
        begin = run[0].offset // ALIGNMENT * ALIGNMENT
        needed = max(p.offset + p.nbytes for p in run) - begin
        slot = spans[-1].slot_offset + spans[-1].nbytes if spans else 0
        spans.append(Span(run[0].file, begin, align(needed), slot, needed))
        for p in run:
            offsets[id(p)] = slot + p.offset - begin
    return tuple(spans), tuple(offsets[id(p)] for p in parts)


def _runs(parts: Iterable[Piece | ScaleGrid]) -> list[list[Piece | ScaleGrid]]:
    """In file order, grouped where the gap is small."""
    runs: list[list[Piece | ScaleGrid]] = []
    for piece in sorted(parts, key=lambda p: (str(p.file), p.offset)):
        last = runs[-1][-1] if runs else None
        if (
            last
            and last.file == piece.file
            and piece.offset - last.offset - last.nbytes < MERGE_GAP
        ):
            runs[-1].append(piece)
        else:
            runs.append([piece])
    return runs

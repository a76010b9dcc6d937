"""Where the matrices of each routed expert lie in a checkpoint as downloaded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from colibri.container.dtypes import weight_format
from colibri.container.files import shown
from colibri.container.header import TensorInfo
from colibri.container.scaled import ScaleGrid, scale_grid
from colibri.container.weights import ExpertShape, Match, WeightMap
from colibri.errors import ContainerError, UnsupportedModelError
from colibri.formats.base import Format
from colibri.words import count

PARTS = ("gate", "up", "down")


@dataclass(frozen=True)
class Piece:
    """One matrix of one expert: row-major [rows, cols] in a format, at a place in a file."""

    tensor: str
    file: Path
    offset: int
    nbytes: int
    format: Format
    rows: int
    cols: int
    scales: ScaleGrid | None = None  # of fp8


ExpertPieces = tuple[Piece, Piece, Piece]  # gate, up, down


def collect_experts(
    path: Path, tensors: Iterable[tuple[TensorInfo, Match]], weights: WeightMap
) -> dict[int, list[ExpertPieces]]:
    """Per layer the pieces of experts 0..n-1, all present, in shape and of one dtype.

    A draft layer of which nothing is there is left out.
    """
    found: dict[int, dict[int, dict[str, Piece]]] = {}
    for info, match in tensors:
        layer, shape = _layer(info, match, weights.experts)
        experts = found.setdefault(layer, {})
        for expert, part, piece in _split(info, match, shape):
            other = experts.setdefault(expert, {}).setdefault(part, piece)
            if other is not piece:
                raise ContainerError(
                    f"{piece.file}: tensors {shown(other.tensor)} and {shown(piece.tensor)} are "
                    f"both {part} of expert {expert} in layer {layer}"
                )
    return {
        layer: _complete(f"{path}: layer {layer}", shape, found.get(layer, {}))
        for layer, shape in weights.experts.items()
        if layer in found or not shape.draft
    }


def _layer(
    info: TensorInfo, match: Match, experts: Mapping[int, ExpertShape]
) -> tuple[int, ExpertShape]:
    layer = match.layer
    if layer is None or layer not in experts:
        raise ContainerError(
            f"{info.file}: tensor {shown(info.name)}: by config.json layer {layer} has no experts"
        )
    return layer, experts[layer]


def _split(info: TensorInfo, match: Match, shape: ExpertShape) -> Iterable[tuple[int, str, Piece]]:
    """(expert, part, piece) of everything that one tensor holds."""
    format = weight_format(info)
    part = match.rule.part
    expected = stored_shape(match, shape)
    rows, cols = expected[-2:]
    _check_shape(info, expected)
    if match.expert is None:
        experts = range(shape.num_experts)
    else:
        if match.expert >= shape.num_experts:
            raise ContainerError(
                f"{info.file}: tensor {shown(info.name)}: by config.json the layer has "
                f"{count(shape.num_experts, 'expert')}"
            )
        experts = range(match.expert, match.expert + 1)
    size = info.nbytes // len(experts)
    for i, expert in enumerate(experts):
        offset = info.offset + i * size
        scales = scale_grid(info, i) if info.scales else None
        piece = Piece(info.name, info.file, offset, size, format, rows, cols, scales)
        if part == "gate_up":
            yield from ((expert, name, half) for name, half in _halves(piece))
        else:
            yield expert, str(part), piece


def stored_shape(match: Match, shape: ExpertShape) -> tuple[int, ...]:
    """Of an expert tensor in a checkpoint, by its rule: of one expert, or of all fused."""
    rows, cols = {
        "gate_up": (2 * shape.inner, shape.hidden),
        "down": (shape.hidden, shape.inner),
    }.get(match.rule.part or "", (shape.inner, shape.hidden))
    return (rows, cols) if match.expert is not None else (shape.num_experts, rows, cols)


def _halves(both: Piece) -> tuple[tuple[str, Piece], tuple[str, Piece]]:
    gate = replace(both, nbytes=both.nbytes // 2, rows=both.rows // 2)
    up = replace(gate, offset=both.offset + gate.nbytes)
    if both.scales:
        gate = replace(gate, scales=both.scales.of_rows(0, gate.rows))
        up = replace(up, scales=both.scales.of_rows(gate.rows, both.rows))
    return ("gate", gate), ("up", up)


def _check_shape(info: TensorInfo, expected: tuple[int, ...]) -> None:
    if info.shape != expected:
        raise ContainerError(
            f"{info.file}: tensor {shown(info.name)}: shape {list(info.shape)}, but by "
            f"config.json {list(expected)}"
        )
    if info.nbytes == 0:
        raise ContainerError(f"{info.file}: tensor {shown(info.name)}: holds no weights")


def _complete(
    where: str, shape: ExpertShape, experts: dict[int, dict[str, Piece]]
) -> list[ExpertPieces]:
    result: list[ExpertPieces] = []
    # Stops at the first gap, so a number of experts that no file could hold costs nothing.
    for expert in range(shape.num_experts):
        pieces = experts.get(expert, {})
        missing = [part for part in PARTS if part not in pieces]
        if missing:
            raise ContainerError(
                f"{where}: expert {expert} of {shape.num_experts} lacks "
                f"{', '.join(missing)} ({count(len(experts), 'expert')} found): incomplete "
                "checkpoint"
            )
        result.append((pieces["gate"], pieces["up"], pieces["down"]))
    _check_one_dtype(where, result)
    return result


def _check_one_dtype(where: str, experts: list[ExpertPieces]) -> None:
    first = experts[0][0]
    for piece in (p for pieces in experts for p in pieces):
        if piece.format != first.format:
            raise UnsupportedModelError(
                f"{where}: {shown(first.tensor)} is {first.format.name}, {shown(piece.tensor)} is "
                f"{piece.format.name}; experts of one layer must have one dtype"
            )

"""Tensors of the dense trunk: what each is, where it lies, and the checks both readers share."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from colibri.container.dtypes import weight_format
from colibri.container.files import shown
from colibri.container.header import TensorInfo
from colibri.container.scaled import ScaleGrid, scale_grid
from colibri.container.weights import Match, WeightMap
from colibri.errors import ContainerError
from colibri.formats.base import Format
from colibri.formats.packed import INT4, INT8
from colibri.words import are, count, count_are

_PACKED_BITS: dict[Format, Literal[4, 8]] = {INT4: 4, INT8: 8}


@dataclass(frozen=True)
class TrunkInfo:
    """`shape` is the logical one; `nbytes` what is stored, scales included; `multiplier` is 1
    unless packed."""

    name: str
    format: Format
    shape: tuple[int, ...]
    nbytes: int
    multiplier: float = 1.0

    @property
    def stored_bits(self) -> Literal[4, 8] | None:
        """None unless packed."""
        return _PACKED_BITS.get(self.format)

    @property
    def scaled(self) -> bool:
        """Whether its scales lie in a tensor of their own."""
        return len(self.format.parts) > 1

    @property
    def decoded_bytes(self) -> int:
        """Of the weights as read_rows gives them: those with scales as float32."""
        return 4 * math.prod(self.shape) if self.scaled else self.nbytes


@dataclass(frozen=True)
class TrunkTensor:
    info: TrunkInfo
    file: Path
    offset: int
    scales: ScaleGrid | None = None  # of fp8

    @property
    def ends(self) -> Iterator[tuple[Path, int]]:
        """Where in its files it ends."""
        if self.scales is None:
            yield self.file, self.offset + self.info.nbytes
        else:
            yield self.file, self.offset + math.prod(self.info.shape)
            yield self.scales.file, self.scales.offset + self.scales.nbytes


Trunk = Mapping[str, TrunkTensor]


def unpacked(t: TensorInfo) -> TrunkTensor:
    """A trunk tensor in its source dtype; others than bf16, f16, f32 and fp8 are refused."""
    format = weight_format(t)
    if t.scales is None:
        return TrunkTensor(TrunkInfo(t.name, format, t.shape, t.nbytes), t.file, t.offset)
    if len(t.shape) != 2:
        raise ContainerError(
            f"{t.file}: tensor {shown(t.name)}: fp8 of shape {list(t.shape)}; outside of experts "
            "only matrices are"
        )
    info = TrunkInfo(t.name, format, t.shape, t.nbytes + t.scales.nbytes)
    return TrunkTensor(info, t.file, t.offset, scale_grid(t))


def classify_all(
    tensors: Iterable[TensorInfo], weights: WeightMap, path: Path
) -> list[tuple[TensorInfo, Match]]:
    """Each tensor with its rule; names that no rule knows are refused, the first few shown."""
    matched, unknown = [], []
    for t in tensors:
        match = weights.classify(t.name)
        if match:
            matched.append((t, match))
        else:
            unknown.append(t)
    if unknown:
        _refuse_quantised(matched)
        first = ", ".join(f"{shown(t.name)} ({t.file.name})" for t in unknown[:5])
        raise ContainerError(
            f"{path}: {count_are(len(unknown), 'tensor')} not part of this model family as "
            f"colibri knows it: {first}; ignoring them could give wrong text"
        )
    return matched


def _refuse_quantised(matched: Iterable[tuple[TensorInfo, Match]]) -> None:
    """Where weights are of a dtype that needs companions (scales), those are not the news."""
    for t, match in matched:
        if match.rule.role != "drop" and t.dtype != "U8":
            weight_format(t)


def check_required(trunk: Trunk, weights: WeightMap, path: Path) -> None:
    """Every required trunk tensor is there, in the shape that the config asks for."""
    missing = [name for name in weights.required if name not in trunk]
    if missing:
        raise ContainerError(
            f"{path}: {len(missing)} of {count(len(weights.required), 'tensor')} "
            f"{are(len(missing))} missing: "
            f"{', '.join(map(shown, missing[:5]))}{', ...' if len(missing) > 5 else ''}; "
            f"{len(trunk)} were found: the download is incomplete or config.json is another model's"
        )
    for name, shape in weights.required.items():
        t = trunk[name]
        if t.info.shape != tuple(shape):
            raise ContainerError(
                f"{t.file}: tensor {shown(name)}: shape {list(t.info.shape)}, but by config.json "
                f"{list(shape)}"
            )

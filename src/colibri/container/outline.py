"""A checkpoint that is not all there, from its headers: enough to plan with, before a download.

Shards may end behind their header. Where an index names shards that are missing, their tensors
follow from the config: shapes from the family's weight map, one dtype for all.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from colibri.container.checkpoint import arranged
from colibri.container.header import DTYPE_BITS, TensorInfo
from colibri.container.layerexperts import LayerExperts
from colibri.container.pieces import stored_shape
from colibri.container.shards import read_outlines
from colibri.container.trunkinfo import Trunk
from colibri.container.weights import Match, WeightMap
from colibri.errors import UnsupportedModelError

if TYPE_CHECKING:
    from colibri.container.reader import Container

_DTYPES = {"bfloat16": "BF16", "float16": "F16", "float32": "F32"}


def read_outline(
    path: Path, config: Mapping[str, Any], weights: WeightMap, others: Sequence[Path] = ()
) -> tuple[Trunk, dict[int, LayerExperts]]:
    """As read_checkpoint; offsets in shards that are missing mean nothing."""

    def absent(index: Mapping[str, str]) -> dict[str, TensorInfo]:
        return _imagined(path, index, weights, _dtype(config)) if index else {}

    return arranged(read_outlines(path, absent, others), weights, path)


def without_data(container: Container) -> tuple[int, int]:
    """How many of the model's files are missing or end before their last tensor does, and how many
    there are."""
    ends: dict[Path, int] = {}
    for t in container.trunk.values():
        ends[t.file] = max(ends.get(t.file, 0), t.offset + t.info.nbytes)
    for layer in container.expert_layers().values():
        for span in (span for spans in layer.spans for span in spans):
            ends[span.file] = max(ends.get(span.file, 0), span.offset + span.needed)
    short = sum(not file.is_file() or file.stat().st_size < end for file, end in ends.items())
    return short, len(ends)


def _dtype(config: Mapping[str, Any]) -> str:
    """What config.json says of the weights; bf16, as released models are, where it says nothing."""
    text = config.get("text_config")
    levels = [config, text] if isinstance(text, dict) else [config]
    for level in levels:
        quantised = level.get("quantization_config")
        if isinstance(quantised, dict):
            raise UnsupportedModelError(
                f"config.json: quantization_config: {quantised.get('quant_method')!r} weights are "
                "not supported; use a BF16, F16 or F32 release of the model"
            )
    said = (level.get(key) for level in levels for key in ("dtype", "torch_dtype"))
    return next((_DTYPES[name] for name in said if name in _DTYPES), "BF16")


def _imagined(
    path: Path, index: Mapping[str, str], weights: WeightMap, dtype: str
) -> dict[str, TensorInfo]:
    """Tensors one after the other in their shard; those of no known shape are not loaded and left
    out."""
    tensors: dict[str, TensorInfo] = {}
    ends: dict[str, int] = {}
    for name, file in sorted(index.items()):
        match = weights.classify(name)
        shape = () if match is None else _shape(name, match, weights)
        if shape is None:
            continue
        nbytes = DTYPE_BITS[dtype] // 8 * math.prod(shape)
        begin = ends.get(file, 0)
        tensors[name] = TensorInfo(name, dtype, shape, path / file, begin, nbytes)
        ends[file] = begin + nbytes
    return tensors


def _shape(name: str, match: Match, weights: WeightMap) -> tuple[int, ...] | None:
    if match.rule.role != "expert":
        return weights.required.get(name)
    shape = None if match.layer is None else weights.experts.get(match.layer)
    if shape is None:
        return ()  # a layer without experts: refused by name with all else that does not fit
    return stored_shape(match, shape)

"""A checkpoint that is not all there, from its headers: enough to plan with, before a download.

Shards may end behind their header. Where an index names shards that are missing, their tensors
follow from the config: shapes from the family's weight map, one dtype for all but those for which
the index names scales, too: they are fp8.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from colibri.container.checkpoint import arranged
from colibri.container.dtypes import CODES, SCALES
from colibri.container.header import DTYPE_BITS, TensorInfo
from colibri.container.layerexperts import LayerExperts
from colibri.container.pieces import stored_shape
from colibri.container.shards import read_outlines
from colibri.container.trunkinfo import Trunk
from colibri.container.weights import WeightMap
from colibri.formats.fp8 import scale_shape

_DTYPES = {"bfloat16": "BF16", "float16": "F16", "float32": "F32"}


def read_outline(
    path: Path, config: Mapping[str, Any], weights: WeightMap, others: Sequence[Path] = ()
) -> tuple[Trunk, dict[int, LayerExperts]]:
    """As read_checkpoint; offsets in shards that are missing mean nothing."""

    def absent(index: Mapping[str, str], names: Collection[str]) -> dict[str, TensorInfo]:
        return _imagined(path, index, names, weights, _dtype(config)) if index else {}

    return arranged(read_outlines(path, absent, others), weights, path)


def _dtype(config: Mapping[str, Any]) -> str:
    """What config.json says of the weights; bf16, as released models are, where it says nothing."""
    text = config.get("text_config")
    levels = [config, text] if isinstance(text, dict) else [config]
    said = (level.get(key) for level in levels for key in ("dtype", "torch_dtype"))
    return next((_DTYPES[name] for name in said if name in _DTYPES), "BF16")


def _imagined(
    path: Path, index: Mapping[str, str], names: Collection[str], weights: WeightMap, dtype: str
) -> dict[str, TensorInfo]:
    """Tensors one after the other in their shard; those of no known shape are not loaded and left
    out. names: of all tensors, also in shards that are here."""
    tensors: dict[str, TensorInfo] = {}
    ends: dict[str, int] = {}
    for name, file in sorted(index.items()):
        found = _imagined_one(name, names, weights, dtype)
        if found is None:
            continue
        own, shape = found
        nbytes = DTYPE_BITS[own] // 8 * math.prod(shape)
        begin = ends.get(file, 0)
        tensors[name] = TensorInfo(name, own, shape, path / file, begin, nbytes)
        ends[file] = begin + nbytes
    return tensors


def _imagined_one(
    name: str, names: Collection[str], weights: WeightMap, dtype: str
) -> tuple[str, tuple[int, ...]] | None:
    base = name.removesuffix(SCALES)
    if base == name or base not in names:
        shape = _shape(name, weights)
        fp8 = name + SCALES in names and shape
        return None if shape is None else (CODES if fp8 else dtype, shape)
    shape = _shape(base, weights)
    # Scales of what is not known are not needed to say so.
    return ("F32", (*shape[:-2], *scale_shape(*shape[-2:]))) if shape else None


def _shape(name: str, weights: WeightMap) -> tuple[int, ...] | None:
    """None: not loaded."""
    match = weights.classify(name)
    if match is None:
        return ()  # refused by name with all else that does not fit
    if match.rule.role != "expert":
        return weights.required.get(name)
    shape = None if match.layer is None else weights.experts.get(match.layer)
    if shape is None:
        return ()  # a layer without experts: refused by name with all else that does not fit
    return stored_shape(match, shape)

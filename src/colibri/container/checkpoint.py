"""A checkpoint as downloaded, read in place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from colibri.container.header import TensorInfo
from colibri.container.layerexperts import LayerExperts, from_pieces
from colibri.container.pieces import collect_experts
from colibri.container.scaled import paired
from colibri.container.shards import read_shards
from colibri.container.trunkinfo import Trunk, check_required, classify_all, unpacked
from colibri.container.weights import WeightMap


def read_checkpoint(
    path: Path, weights: WeightMap, others: Sequence[Path] = ()
) -> tuple[Trunk, dict[int, LayerExperts]]:
    """The trunk and the expert layers of a directory of safetensors files. others: directories with
    more of them."""
    return arranged(read_shards(path, others), weights, path)


def arranged(
    tensors: Mapping[str, TensorInfo], weights: WeightMap, path: Path
) -> tuple[Trunk, dict[int, LayerExperts]]:
    """Tensors as trunk and expert layers, all there and in shape."""
    matched = classify_all(paired(tensors).values(), weights, path)
    trunk = {t.name: unpacked(t) for t, match in matched if match.rule.role == "trunk"}
    check_required(trunk, weights, path)
    routed = [(t, m) for t, m in matched if m.rule.role == "expert"]
    experts = collect_experts(path, routed, weights)
    layers = {
        layer: from_pieces(layer, pieces, weights.experts[layer].draft)
        for layer, pieces in sorted(experts.items())
    }
    return trunk, layers

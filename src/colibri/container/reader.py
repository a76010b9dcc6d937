"""Opening a model's directory: converted, or a checkpoint as downloaded."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from colibri.container.checkpoint import read_checkpoint
from colibri.container.converted import read_converted
from colibri.container.files import list_names, opened, read_into, shown
from colibri.container.jsonfile import read_json
from colibri.container.layerexperts import LayerExperts
from colibri.container.spec import JOURNAL_NAME, MANIFEST_NAME
from colibri.container.trunkinfo import Trunk, TrunkInfo, TrunkTensor
from colibri.container.weights import WeightMap
from colibri.errors import ContainerError

_ARRAYS = {"f32": np.float32, "f16": np.float16, "bf16": np.uint16}


@dataclass(frozen=True)
class Container:
    """A model on disk, checked; weights are read on demand, into fresh memory, never mapped."""

    path: Path
    config: dict[str, Any]
    generation_config: dict[str, Any]
    converted: bool
    weights: WeightMap
    trunk: Trunk
    layers: Mapping[int, LayerExperts]

    def names(self) -> Collection[str]:
        """The trunk's tensors."""
        return self.trunk.keys()

    def info(self, name: str) -> TrunkInfo:
        return self._tensor(name).info

    def expert_layers(self) -> Mapping[int, LayerExperts]:
        return self.layers

    @property
    def trunk_bytes(self) -> int:
        """Bytes of the trunk as stored."""
        return sum(t.info.nbytes for t in self.trunk.values())

    @property
    def stored_bits(self) -> Literal[4, 8] | None:
        """The fewest bits at which a matrix of the trunk is stored packed; None if none is."""
        found = [b for t in self.trunk.values() if (b := t.info.stored_bits)]
        return min(found, default=None)

    @property
    def stored_embed_bits(self) -> Literal[4, 8] | None:
        """The bits at which the embedding is stored packed; None if it is not."""
        for name, t in self.trunk.items():
            match = self.weights.classify(name)
            if match and match.rule.kind == "embedding":
                return t.info.stored_bits
        return None

    def read_rows(self, name: str, start: int, stop: int) -> npt.NDArray[Any]:
        """Rows start..stop (first dimension) as float32, float16 or uint16 (bf16)."""
        t = self._tensor(name)
        shape = t.info.shape
        if not shape or not 0 <= start <= stop <= shape[0]:
            raise ValueError(f"rows {start}..{stop} of {name} {shape}")
        row = t.info.nbytes // max(shape[0], 1)
        return self._read_array(t, (stop - start, *shape[1:]), start * row)

    def read_all(self, name: str) -> npt.NDArray[Any]:
        """A whole unpacked tensor, of any number of dimensions."""
        t = self._tensor(name)
        return self._read_array(t, t.info.shape, 0)

    def read_packed(self, name: str, out: npt.NDArray[np.uint8], offset: int = 0) -> None:
        """Fill out with the bytes of a packed tensor, from `offset` on."""
        t = self._tensor(name)
        if not t.info.stored_bits or offset + out.nbytes > t.info.nbytes:
            raise ValueError(f"{out.nbytes} bytes from {offset} of {name} ({t.info.dtype})")
        _read(t, out, offset)

    def _read_array(self, t: TrunkTensor, shape: tuple[int, ...], offset: int) -> npt.NDArray[Any]:
        if t.info.dtype not in _ARRAYS:
            raise ValueError(f"{t.info.name} is stored packed ({t.info.dtype})")
        out = np.empty(shape, _ARRAYS[t.info.dtype])
        _read(t, out, offset)
        return out

    def _tensor(self, name: str) -> TrunkTensor:
        try:
            return self.trunk[name]
        except KeyError:
            raise ContainerError(f"{self.path}: tensor {shown(name)} is missing") from None


def open_container(path: Path, weights_for: Callable[[dict[str, Any]], WeightMap]) -> Container:
    """Read and check everything but the weights themselves.

    `weights_for` gives a config's weight map. Raises ContainerError for a damaged, incomplete or
    contradictory model, and whatever `weights_for` raises.
    """
    names = list_names(path)
    converted = MANIFEST_NAME in names
    if not converted and JOURNAL_NAME in names:
        raise ContainerError(
            f"{path}: an unfinished conversion (no {MANIFEST_NAME}); run the same `coli convert` "
            "again and it will go on where it stopped"
        )
    config = read_json(path / "config.json")
    extra = "generation_config.json"
    generation_config = read_json(path / extra) if extra in names else {}
    weights = weights_for(config)
    read = read_converted if converted else read_checkpoint
    trunk, layers = read(path, weights)
    return Container(path, config, generation_config, converted, weights, trunk, layers)


def _read(t: TrunkTensor, out: npt.NDArray[Any], offset: int) -> None:
    with opened(t.file) as (fd, _):
        read_into(fd, t.file, memoryview(out.reshape(-1).view(np.uint8).data), t.offset + offset)

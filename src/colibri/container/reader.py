"""Opening a model's directory: converted, or a checkpoint as downloaded."""

from __future__ import annotations

import contextlib
import gc
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from colibri.container.checkpoint import read_checkpoint
from colibri.container.converted import read_converted
from colibri.container.direct import DirectFiles
from colibri.container.files import list_names, shown
from colibri.container.foreign import refuse_adapter
from colibri.container.jsonfile import read_json
from colibri.container.layerexperts import LayerExperts
from colibri.container.outline import read_outline
from colibri.container.quantised import check_method
from colibri.container.scaled import check_quantization
from colibri.container.spec import JOURNAL_NAME, MANIFEST_NAME
from colibri.container.trunkinfo import Trunk, TrunkInfo, TrunkTensor
from colibri.container.weights import WeightMap
from colibri.errors import ContainerError
from colibri.formats.base import Matrix, NonFiniteError, check_finite, decode
from colibri.formats.floats import FloatFormat, float_matrix
from colibri.formats.fp8 import fp8_matrix

_Read = Callable[[Path, int, int], npt.NDArray[np.uint8]]


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
    files: DirectFiles = field(compare=False)

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
    def required_bytes(self) -> int:
        """Of these what runs: the rest is kept and never loaded."""
        names = self.trunk.keys() & self.weights.required.keys()
        return sum(self.trunk[name].info.nbytes for name in names)

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
        """Rows start..stop (first dimension) as float32 (also of fp8), float16 or uint16 (bf16),
        all finite."""
        if self.info(name).scaled:
            return self._decoded(name, start, stop)
        return self._finite(name, self._rows(name, start, stop, self.files.read), start)

    def borrow_rows(self, name: str, start: int, stop: int) -> npt.NDArray[Any]:
        """The same in memory that the calling thread's next read uses again, and not checked:
        packing will. Of fp8 it is fresh memory."""
        if self.info(name).scaled:
            return self._decoded(name, start, stop)
        return self._rows(name, start, stop, self.files.borrow)

    def read_scaled(self, name: str, start: int, stop: int) -> Matrix:
        """Rows start..stop of a matrix with scales as stored, all finite."""
        w = self._scaled(name, start, stop, self.files.read)
        with self._naming(name, start):
            check_finite(w)
        return w

    def read_all(self, name: str) -> npt.NDArray[Any]:
        """A whole unpacked tensor, of any number of dimensions, all finite."""
        t = self._tensor(name)
        if t.scales:
            return self._decoded(name, 0, t.info.shape[0])
        return self._finite(name, _array(t, t.info.shape, 0, self.files.read), 0)

    def read_packed(
        self, name: str, offset: int, nbytes: int, place: npt.NDArray[np.uint8] | None = None
    ) -> npt.NDArray[np.uint8]:
        """Bytes of a packed tensor, from `offset` on; in `place` [nbytes] if given."""
        t = self._tensor(name)
        if not t.info.stored_bits or offset + nbytes > t.info.nbytes:
            raise ValueError(f"{nbytes} bytes from {offset} of {name} ({t.info.format.name})")
        return self.files.read(t.file, t.offset + offset, nbytes, place)

    def _rows(self, name: str, start: int, stop: int, read: _Read) -> npt.NDArray[Any]:
        t = self._tensor(name)
        shape = t.info.shape
        _check_rows(t.info, start, stop)
        row = t.info.nbytes // max(shape[0], 1)
        return _array(t, (stop - start, *shape[1:]), start * row, read)

    def _scaled(self, name: str, start: int, stop: int, read: _Read) -> Matrix:
        t = self._tensor(name)
        _check_rows(t.info, start, stop)
        assert t.scales is not None
        grid, cols = t.scales.of_rows(start, stop), t.info.shape[1]
        scales = grid.array(self.files.read(grid.file, grid.offset, grid.nbytes))
        codes = read(t.file, t.offset + start * cols, (stop - start) * cols)
        return fp8_matrix(codes.reshape(-1, cols), scales, grid.first)

    def _decoded(self, name: str, start: int, stop: int) -> npt.NDArray[np.float32]:
        w = self._scaled(name, start, stop, self.files.borrow)
        with self._naming(name, start):
            return decode(w)

    def _finite(self, name: str, a: npt.NDArray[Any], first_row: int) -> npt.NDArray[Any]:
        """Arithmetic with a weight that is not finite is not always loud: an infinite gate is
        open."""
        if a.size == 0:
            return a
        with self._naming(name, first_row):
            check_finite(float_matrix(a.reshape(-1, a.shape[-1] if a.ndim else 1)))
        return a

    @contextlib.contextmanager
    def _naming(self, name: str, first_row: int) -> Iterator[None]:
        try:
            yield
        except NonFiniteError as e:
            raise ContainerError(
                f"{self._tensor(name).file}: tensor {shown(name)}: the weight at row "
                f"{first_row + e.row}, column {e.col} is not finite: the file is damaged"
            ) from None

    def _tensor(self, name: str) -> TrunkTensor:
        try:
            return self.trunk[name]
        except KeyError:
            raise ContainerError(f"{self.path}: tensor {shown(name)} is missing") from None


def open_container(
    path: Path,
    weights_for: Callable[[dict[str, Any]], WeightMap],
    *,
    direct: bool = True,
    others: Sequence[Path] = (),
    incomplete: bool = False,
) -> Container:
    """Read and check everything but the weights themselves.

    `weights_for` gives a config's weight map; without `direct` weights are read through the page
    cache; `others` hold shards that `path` does not. `incomplete`: headers are enough (see
    outline.py); reading a weight that is not there is an error then. Raises ContainerError for a
    damaged, incomplete or contradictory model, and whatever `weights_for` raises.
    """
    names = list_names(path)
    converted = MANIFEST_NAME in names
    if not converted and JOURNAL_NAME in names:
        raise ContainerError(
            f"{path}: an unfinished conversion (no {MANIFEST_NAME}); run the same `coli convert` "
            "again and it will go on where it stopped"
        )
    refuse_adapter(path, names)
    config = read_json(path / "config.json")
    extra = "generation_config.json"
    generation_config = read_json(path / extra) if extra in names else {}
    weights = weights_for(config)
    with _no_collection():
        if converted:
            trunk, layers = read_converted(path, weights, others, cut_short=incomplete)
        else:
            check_method(path, config, names)
            check_quantization(config)
            if incomplete:
                trunk, layers = read_outline(path, config, weights, others)
            else:
                trunk, layers = read_checkpoint(path, weights, others)
    return Container(
        path,
        config,
        generation_config,
        converted,
        weights,
        trunk,
        layers,
        DirectFiles(direct),
    )


def _check_rows(info: TrunkInfo, start: int, stop: int) -> None:
    if not info.shape or not 0 <= start <= stop <= info.shape[0]:
        raise ValueError(f"rows {start}..{stop} of {info.name} {info.shape}")


def _array(t: TrunkTensor, shape: tuple[int, ...], offset: int, read: _Read) -> npt.NDArray[Any]:
    if not isinstance(t.info.format, FloatFormat):
        raise ValueError(f"{t.info.name} is stored packed ({t.info.format.name})")
    dtype = t.info.format.dtype
    data = read(t.file, t.offset + offset, math.prod(shape) * dtype.itemsize)
    if data.ctypes.data % dtype.itemsize:  # borrowed, and the file's header is of odd length
        data = data.copy()
    return data.view(dtype).reshape(shape)


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    """A large model's index is half a million objects that all live on: looking for garbage among
    them, again and again as they grow, takes a quarter of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()

"""Reading a checkpoint's tensors: whole matrices of one expert, the trunk in blocks of rows."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from colibri.container.files import read_into, reason, shown
from colibri.container.header import TensorInfo
from colibri.container.weights import ExpertShape, Part
from colibri.errors import ContainerError
from colibri.kernels.packing import BLOCK_ROWS

Weights = npt.NDArray[Any]  # float32 | float16 | uint16 (bf16)

NUMPY_DTYPES: dict[str, np.dtype[Any]] = {
    "BF16": np.dtype("<u2"),
    "F16": np.dtype("<f2"),
    "F32": np.dtype("<f4"),
}
BLOCK_BYTES = 4 << 20


@dataclass(frozen=True)
class MatrixSlice:
    """A matrix [rows, cols] inside a tensor, which may hold several."""

    info: TensorInfo
    offset: int  # in the file
    rows: int
    cols: int

    @property
    def nbytes(self) -> int:
        return self.rows * self.cols * NUMPY_DTYPES[self.info.dtype].itemsize


@dataclass(frozen=True)
class LayerSource:
    """Where the experts of one layer lie; key (None, part) is a fused tensor of all experts."""

    layer: int
    shape: ExpertShape
    tensors: Mapping[tuple[int | None, Part], TensorInfo]

    def matrices(self, expert: int) -> tuple[MatrixSlice, MatrixSlice, MatrixSlice]:
        """Gate [inner, hidden], up [inner, hidden] and down [hidden, inner] of an expert."""
        inner, hidden = self.shape.inner, self.shape.hidden
        down = self._slice(expert, "down", 0, hidden, inner)
        if self._tensor(expert, "gate_up") is None:
            gate = self._slice(expert, "gate", 0, inner, hidden)
            return gate, self._slice(expert, "up", 0, inner, hidden), down
        gate = self._slice(expert, "gate_up", 0, inner, hidden)
        return gate, self._slice(expert, "gate_up", inner, inner, hidden), down

    def files(self, expert: int) -> set[str]:
        return {m.info.file.name for m in self.matrices(expert)}

    def _slice(self, expert: int, part: Part, row: int, rows: int, cols: int) -> MatrixSlice:
        info = self._tensor(expert, part)
        assert info is not None  # the plan checked that every part is there
        row_bytes = cols * NUMPY_DTYPES[info.dtype].itemsize
        fused = (None, part) in self.tensors
        start = info.offset + (expert * info.nbytes // info.shape[0] if fused else 0)
        return MatrixSlice(info, start + row * row_bytes, rows, cols)

    def _tensor(self, expert: int, part: Part) -> TensorInfo | None:
        return self.tensors.get((None, part)) or self.tensors.get((expert, part))


class SourceFiles:
    """Open files of a checkpoint; use as a context manager."""

    def __init__(self) -> None:
        self._fds: dict[Path, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for fd in self._fds.values():
            os.close(fd)
        self._fds.clear()

    def matrix(self, m: MatrixSlice) -> Weights:
        """A fresh array [rows, cols]."""
        return self._read(m.info, m.offset, m.rows * m.cols).reshape(m.rows, m.cols)

    def row_blocks(self, info: TensorInfo) -> Iterator[Weights]:
        """A tensor [rows, cols] as blocks of whole row blocks, of about 4 MB."""
        rows, cols = info.shape
        row_bytes = max(1, info.nbytes // max(1, rows))
        step = max(BLOCK_ROWS, BLOCK_BYTES // row_bytes // BLOCK_ROWS * BLOCK_ROWS)
        for row in range(0, rows, step):
            count = min(step, rows - row)
            yield self.matrix(MatrixSlice(info, info.offset + row * row_bytes, count, cols))

    def flat_blocks(self, info: TensorInfo) -> Iterator[Weights]:
        """All elements of a tensor of any shape, in pieces of at most 4 MB."""
        itemsize = NUMPY_DTYPES[info.dtype].itemsize
        for start in range(0, info.nbytes, BLOCK_BYTES):
            count = min(BLOCK_BYTES, info.nbytes - start) // itemsize
            yield self._read(info, info.offset + start, count)

    def _read(self, info: TensorInfo, offset: int, count: int) -> Weights:
        out = np.empty(count, NUMPY_DTYPES[info.dtype])
        view = out.view(np.uint8).data
        fd = self._open(info.file)
        read_into(fd, info.file, view, offset)
        if hasattr(os, "posix_fadvise"):  # read once: leave the page cache to others
            os.posix_fadvise(fd, offset, len(view), os.POSIX_FADV_DONTNEED)
        return out

    def _open(self, path: Path) -> int:
        fd = self._fds.get(path)
        if fd is None:
            try:
                fd = self._fds[path] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except OSError as error:
                raise ContainerError(f"{path}: cannot be read: {reason(error)}") from error
        return fd


def check_finite(info: TensorInfo, weights: Weights, before: int = 0) -> None:
    """Refuse a weight that is not finite, by tensor and place; `before`: elements already seen."""
    bf16 = weights.dtype == np.uint16
    # Without a NumPy type for bf16: infinite or NaN is what has all ones in the exponent.
    bad = (weights & 0x7F80) == 0x7F80 if bf16 else ~np.isfinite(weights)
    if bad.any():
        where = before + int(np.argmax(bad.reshape(-1)))
        raise ContainerError(
            f"{info.file}: tensor {shown(info.name)}: element {where} is not finite (NaN or "
            "infinite); the file is damaged or the model diverged in training"
        )

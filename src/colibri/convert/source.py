"""Reading a checkpoint's tensors a few MB at a time: matrices in blocks of rows, those in fp8 with
the scales of these rows."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from colibri.container.direct import DirectFiles
from colibri.container.files import shown
from colibri.container.header import TensorInfo
from colibri.container.scaled import ScaleGrid, scale_grid
from colibri.container.weights import ExpertShape, Part
from colibri.convert.pipeline import each_ahead
from colibri.errors import ContainerError
from colibri.formats import base
from colibri.formats.base import Matrix, NonFiniteError
from colibri.formats.floats import float_matrix
from colibri.formats.fp8 import fp8_matrix
from colibri.formats.packed import BLOCK_ROWS

Floats = npt.NDArray[Any]  # float32 | float16 | uint16 (bf16); of scales also uint8 (ue8m0)
Weights = Floats | Matrix  # the latter with scales

NUMPY_DTYPES: dict[str, np.dtype[Any]] = {
    "BF16": np.dtype("<u2"),
    "F16": np.dtype("<f2"),
    "F32": np.dtype("<f4"),
    "F8_E4M3": np.dtype("u1"),
    "F8_E8M0": np.dtype("u1"),
}
BLOCK_BYTES = 4 << 20
_READERS = 3  # a single read at a time does not fill a fast disk's queue
_AHEAD = 6
_CHECKED_COLS = 1024


@dataclass(frozen=True)
class MatrixSlice:
    """A matrix [rows, cols] inside a tensor, which may hold several."""

    info: TensorInfo
    offset: int  # in the file
    rows: int
    cols: int
    scales: ScaleGrid | None = None  # of fp8

    @property
    def nbytes(self) -> int:
        own = self.rows * self.cols * NUMPY_DTYPES[self.info.dtype].itemsize
        return own + (self.scales.nbytes if self.scales else 0)

    @property
    def files(self) -> set[str]:
        return files_of(self.info)


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

    def _slice(self, expert: int, part: Part, row: int, rows: int, cols: int) -> MatrixSlice:
        info = self._tensor(expert, part)
        assert info is not None  # the plan checked that every part is there
        row_bytes = cols * NUMPY_DTYPES[info.dtype].itemsize
        fused = (None, part) in self.tensors
        start = info.offset + (expert * info.nbytes // info.shape[0] if fused else 0)
        grid = scale_grid(info, expert if fused else 0) if info.scales else None
        scales = grid.of_rows(row, row + rows) if grid else None
        return MatrixSlice(info, start + row * row_bytes, rows, cols, scales)

    def _tensor(self, expert: int, part: Part) -> TensorInfo | None:
        return self.tensors.get((None, part)) or self.tensors.get((expert, part))


@dataclass(frozen=True)
class Piece:
    """Some rows of a matrix, or some elements of a tensor as one row: what is read at once."""

    info: TensorInfo
    offset: int  # in the file
    rows: int
    cols: int
    first_row: int  # in the matrix
    scales: ScaleGrid | None = None  # of fp8: of these rows

    @property
    def nbytes(self) -> int:
        """Without the scales."""
        return self.rows * self.cols * NUMPY_DTYPES[self.info.dtype].itemsize


def row_pieces(m: MatrixSlice) -> Iterator[Piece]:
    """Whole row blocks, of about 4 MB; of fp8 less, which becomes more when it is decoded."""
    row_bytes = m.cols * NUMPY_DTYPES[m.info.dtype].itemsize
    block_bytes = BLOCK_BYTES if m.scales is None else BLOCK_BYTES // 2
    step = max(BLOCK_ROWS, block_bytes // max(1, row_bytes) // BLOCK_ROWS * BLOCK_ROWS)
    for row in range(0, m.rows, step):
        count = min(step, m.rows - row)
        scales = m.scales.of_rows(row, row + count) if m.scales else None
        yield Piece(m.info, m.offset + row * row_bytes, count, m.cols, row, scales)


def flat_pieces(info: TensorInfo) -> Iterator[Piece]:
    """All elements of a tensor of any shape, at most 4 MB at a time."""
    itemsize = NUMPY_DTYPES[info.dtype].itemsize
    for start in range(0, info.nbytes, BLOCK_BYTES):
        count = min(BLOCK_BYTES, info.nbytes - start) // itemsize
        yield Piece(info, info.offset + start, 1, count, 0)


def whole(info: TensorInfo) -> MatrixSlice:
    rows, cols = info.shape
    return MatrixSlice(info, info.offset, rows, cols, scale_grid(info) if info.scales else None)


def files_of(info: TensorInfo) -> set[str]:
    """Where a tensor and its scales lie."""
    return {t.file.name for t in (info, info.scales) if t is not None}


class Source:
    """Open files of a checkpoint, for any number of threads."""

    def __init__(self) -> None:
        self._files = DirectFiles()

    def read(self, piece: Piece) -> Weights:
        """A fresh array [rows, cols], or a matrix in fp8."""
        return self._read([piece])[0]

    def read_all(self, pieces: Iterable[Piece]) -> Generator[Weights]:
        """Each piece in order, the next ones read meanwhile, neighbours in one read."""
        groups = each_ahead(self._read, _neighbours(pieces), threads=_READERS, depth=_AHEAD)
        with contextlib.closing(groups):
            for group in groups:
                yield from group

    def _read(self, group: Sequence[Piece]) -> list[Weights]:
        first, last = group[0], group[-1]
        nbytes = last.offset + last.nbytes - first.offset
        data = self._files.read(first.info.file, first.offset, nbytes)
        return [self._weights(p, data[p.offset - first.offset :][: p.nbytes]) for p in group]

    def _weights(self, piece: Piece, data: npt.NDArray[np.uint8]) -> Weights:
        array, grid = _array(piece, data), piece.scales
        if grid is None:
            return array
        scales = grid.array(self._files.read(grid.file, grid.offset, grid.nbytes))
        return fp8_matrix(array, scales, grid.first)

    def close(self) -> None:
        self._files.close()


def _neighbours(pieces: Iterable[Piece]) -> Iterator[list[Piece]]:
    """Pieces that follow each other in a file, together at most 4 MB."""
    group: list[Piece] = []
    end = total = 0
    for piece in pieces:
        total += piece.nbytes
        follows = group and piece.info.file == group[0].info.file and piece.offset == end
        if not follows or total > BLOCK_BYTES:
            if group:
                yield group
            group, total = [], piece.nbytes
        group.append(piece)
        end = piece.offset + piece.nbytes
    if group:
        yield group


def _array(piece: Piece, data: npt.NDArray[np.uint8]) -> Floats:
    dtype = NUMPY_DTYPES[piece.info.dtype]
    if data.ctypes.data % dtype.itemsize:  # behind a neighbour of narrower elements
        data = data.copy()
    return data.view(dtype).reshape(piece.rows, piece.cols)


def floats(weights: Weights) -> Floats:
    """What can be packed: of fp8 its float32 values. Raises NonFiniteError."""
    return base.decode(weights) if isinstance(weights, Matrix) else weights


def check_finite(piece: Piece, weights: Weights) -> None:
    """Refuse a weight that is not finite, by tensor and place. Scales in ue8m0 are looked at with
    their weights."""
    if isinstance(weights, Matrix):
        with naming_the_element(piece):
            base.check_finite(weights)
    elif weights.dtype != np.uint8:
        flat = weights.reshape(-1)
        bulk = flat.size - flat.size % _CHECKED_COLS
        for start, part in ((0, flat[:bulk].reshape(-1, _CHECKED_COLS)), (bulk, flat[None, bulk:])):
            if part.size:
                with naming_the_element(piece, start):
                    base.check_finite(float_matrix(part))


@contextlib.contextmanager
def naming_the_element(piece: Piece, start: int = 0) -> Iterator[None]:
    """Turn the kernels' refusal of a weight, in what begins with element `start` of the piece, into
    an error that names its place in the tensor."""
    try:
        yield
    except NonFiniteError as error:
        before = (piece.offset - piece.info.offset) // NUMPY_DTYPES[piece.info.dtype].itemsize
        where = before + start + error.row * error.cols + error.col
        raise ContainerError(
            f"{piece.info.file}: tensor {shown(piece.info.name)}: element {where} is not finite "
            "(NaN or infinite); the file is damaged or the model diverged in training"
        ) from None

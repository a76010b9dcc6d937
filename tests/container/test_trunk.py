import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from converted_model import rewrite_file, write_converted
from tiny_model import bf16, trunk_tensors, weight_map, write_config, write_tensors

from colibri.container import trunk
from colibri.container.reader import Container, open_container
from colibri.container.trunk import load_embedding, load_matrix, load_vector, matrix_bytes
from colibri.container.weights import Rule, WeightMap
from colibri.errors import ConfigError, ContainerError
from colibri.formats.base import decode
from colibri.formats.floats import FloatFormat
from colibri.formats.packed import INT8, PackedFormat, pack_matrix
from colibri.formats.table import FORMATS
from colibri.hardware import hugepages
from colibri.hardware.hugepages import Slabs

RNG = np.random.default_rng(3)
NORMAL = RNG.normal(size=(70, 100)).astype(np.float32)
Q = "model.layers.0.q_proj.weight"
Arrays = dict[str, np.ndarray[Any, Any]]


def container(path: Path, tensors: Arrays) -> Container:
    """A trunk of any tensors, without experts."""
    write_config(path)
    write_tensors(path / "model.safetensors", tensors)
    return open_container(path, lambda _: WeightMap((Rule(".*", "trunk", "linear"),), {}, {}))


def bits_equal(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> bool:
    return a.shape == b.shape and a.tobytes() == b.tobytes()


@pytest.mark.parametrize("rows_a_piece", [16, 32, 1000])
@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("scale", [1.0, 1e-4, "one large row", "one small row"], ids=str)
def test_loading_in_pieces_gives_the_bytes_of_the_whole(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    rows_a_piece: int,
    bits: Any,
    dtype: str,
    scale: Any,
) -> None:
    w = NORMAL.copy()
    if scale == "one large row":
        w[50] *= 65000.0 if dtype == "f16" else 1e8
        w = np.clip(w, -65000, 65000) if dtype == "f16" else w
    elif scale == "one small row":
        w[50] *= 1e-7
    else:
        w *= scale
    if dtype != "f32":
        w = bf16(w) if dtype == "bf16" else w.astype(np.float16)
    monkeypatch.setattr(trunk, "_PIECE_BYTES", rows_a_piece * w[0].nbytes)
    c = container(tmp_path, {"w": w})
    scheme: Any = {8: "int8-gs64", 4: "int4-gs64"}[bits]
    expected = pack_matrix(w, FORMATS[scheme])
    m = load_matrix(c, "w", bits)
    assert isinstance(m.format, PackedFormat)
    assert (m.format.name, m.rows, m.cols) == (scheme, 70, 100)
    assert m.multiplier == expected.multiplier
    assert bits_equal(m.data, expected.data)
    assert matrix_bytes(c.info("w"), bits) == m.nbytes


@pytest.mark.parametrize("stored", [True, False])
def test_packed_matrices_lie_in_slabs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stored: bool
) -> None:
    monkeypatch.setattr(hugepages, "_LEAST_BYTES", 1)
    if stored:
        write_converted(tmp_path, packed=(Q,))
        c, name, w = open_container(tmp_path, lambda _: weight_map()), Q, trunk_tensors()[Q]
    else:
        c, name, w = container(tmp_path, {"w": NORMAL}), "w", NORMAL
    slabs = Slabs()
    before = slabs.take(4096).ctypes.data
    matrices = [load_matrix(c, name, 8, slabs=slabs) for _ in range(2)]
    places = [m.data.ctypes.data - before for m in matrices if isinstance(m.format, PackedFormat)]
    assert places == [4096, 4096 + matrices[0].nbytes + -matrices[0].nbytes % 4096]
    assert all(bits_equal(m.data, pack_matrix(w, INT8).data) for m in matrices)


def test_the_multiplier_cases_above_are_real() -> None:
    w = NORMAL.copy()
    w[50] *= 1e8
    assert pack_matrix(w, INT8).multiplier > 1
    w[50] *= 1e-15
    assert pack_matrix(w, INT8).multiplier < 1


@pytest.mark.parametrize("bits", [8, 4, "source"])
@pytest.mark.parametrize("size", [1.0, 1e-7], ids=["one pass", "two passes"])
def test_loading_takes_a_few_megabytes_beside_the_result(
    tmp_path: Path, bits: Any, size: float
) -> None:
    w = np.full((30_000, 512), size, np.float32)  # 61 MB
    w[:, 0] *= 2
    c = container(tmp_path, {"w": w})
    del w
    tracemalloc.start()
    m = load_matrix(c, "w", bits)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert isinstance(m.format, FloatFormat) or (m.multiplier == 1) == (size == 1)
    assert peak < m.nbytes + 10_000_000


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.uint16])
def test_at_source_precision_nothing_changes(tmp_path: Path, dtype: Any) -> None:
    w = bf16(NORMAL) if dtype == np.uint16 else NORMAL.astype(dtype)
    c = container(tmp_path, {"w": w})
    for m in (load_matrix(c, "w", "source"), load_embedding(c, "w", 32)):
        assert isinstance(m.format, FloatFormat)
        assert m.data.dtype == dtype
        assert bits_equal(m.data, w)
        assert matrix_bytes(c.info("w"), "source") == matrix_bytes(c.info("w"), 32) == m.nbytes


@pytest.mark.parametrize("rows", [slice(0, 16), slice(16, 48), slice(3, 70), slice(69, None)])
@pytest.mark.parametrize("bits", ["source", 8])
def test_some_rows(tmp_path: Path, rows: slice, bits: Any) -> None:
    c = container(tmp_path, {"w": NORMAL})
    m = load_matrix(c, "w", bits, rows=rows)
    if isinstance(m.format, FloatFormat):
        assert bits_equal(m.data, NORMAL[rows])
    else:
        assert bits_equal(m.data, pack_matrix(NORMAL[rows].copy(), INT8).data)


def test_exact_tensors_come_as_float32(tmp_path: Path) -> None:
    values = np.array([1.5, -2.25, 3e-38, 65280], np.float32)
    tensors = {
        "f32": values,
        "f16": values[:2].astype(np.float16),
        "bf16": bf16(values),
        "cube": values.reshape(2, 1, 2),
        "scalar": np.array(0.5, np.float32),
    }
    c = container(tmp_path, tensors)
    assert bits_equal(load_vector(c, "f32"), values)
    assert load_vector(c, "f16").tolist() == [1.5, -2.25]
    assert bits_equal(load_vector(c, "bf16").view(np.uint32) >> 16, bf16(values).astype(np.uint32))
    assert load_vector(c, "cube").shape == (2, 1, 2)
    assert load_vector(c, "scalar") == 0.5
    assert all(load_vector(c, n).dtype == np.float32 for n in tensors)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("where", [(0, 0), (40, 99), (69, 64)])
def test_non_finite_weights_are_refused_by_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad: float, where: tuple[int, int]
) -> None:
    monkeypatch.setattr(trunk, "_PIECE_BYTES", 16 * 400)
    w = NORMAL.copy()
    w[where] = bad
    c = container(tmp_path, {"w": w})
    bits: list[Any] = [8, 4, "source"]
    for b in bits:
        with pytest.raises(ContainerError, match=f"'w'.* row {where[0]}, column {where[1]} "):
            load_matrix(c, "w", b)


@pytest.mark.parametrize("cast", [lambda a: a, bf16, lambda a: a.astype(np.float16)])
@pytest.mark.parametrize("shape", [(6,), (2, 1, 3), (1, 6)])
def test_non_finite_exact_tensors_are_refused(tmp_path: Path, cast: Any, shape: Any) -> None:
    values = np.arange(6, dtype=np.float32)
    values[4] = np.inf
    c = container(tmp_path, {"v": cast(values.reshape(shape))})
    with pytest.raises(ContainerError, match="'v': the weight at row"):
        load_vector(c, "v")


def test_what_is_no_matrix_is_refused(tmp_path: Path) -> None:
    c = container(tmp_path, {"v": NORMAL[0], "none": NORMAL[:0], "cube": NORMAL[None]})
    for name in c.names():
        with pytest.raises(ContainerError, match=f"'{name}': shape"):
            load_matrix(c, name, 8)
    with pytest.raises(ContainerError, match="'w' is missing"):
        load_matrix(c, "w", 8)
    with pytest.raises(ContainerError, match="'w' is missing"):
        load_vector(c, "w")


Q = "model.layers.0.q_proj.weight"


def test_stored_packed(tmp_path: Path) -> None:
    write_converted(tmp_path, packed=(Q, "model.embed_tokens.weight"))
    c = open_container(tmp_path, lambda _: weight_map())
    whole = load_matrix(c, Q, 8)
    assert isinstance(whole.format, PackedFormat)
    fewer = load_matrix(c, Q, 4)
    assert isinstance(fewer.format, PackedFormat)
    assert fewer.format is INT8
    assert bits_equal(fewer.data, whole.data)
    assert matrix_bytes(c.info(Q), 4) == matrix_bytes(c.info(Q), 8) == whole.nbytes
    with pytest.raises(ConfigError, match=f"'{Q}' is stored at 8 bits; source was asked for"):
        load_matrix(c, Q, "source")
    with pytest.raises(ConfigError, match="is stored at 8 bits"):
        load_embedding(c, "model.embed_tokens.weight", 32)
    assert load_embedding(c, "model.embed_tokens.weight", 8).format is INT8
    with pytest.raises(ContainerError, match="must be exact"):
        load_vector(c, Q)


@pytest.mark.parametrize("rows", [slice(0, 32), slice(16, 72), slice(64, 72)])
def test_rows_of_a_matrix_stored_packed(tmp_path: Path, rows: slice) -> None:
    write_converted(tmp_path, packed=(Q,))
    c = open_container(tmp_path, lambda _: weight_map())
    whole, some = load_matrix(c, Q, 8), load_matrix(c, Q, 8, rows=rows)
    assert isinstance(whole.format, PackedFormat)
    assert isinstance(some.format, PackedFormat)
    values = decode(whole)
    found = decode(some)
    assert bits_equal(found, values[rows])


@pytest.mark.parametrize("rows", [slice(8, 32), slice(0, 40)])
def test_rows_inside_a_packed_block(tmp_path: Path, rows: slice) -> None:
    write_converted(tmp_path, packed=(Q,))
    c = open_container(tmp_path, lambda _: weight_map())
    with pytest.raises(ContainerError, match="blocks of 16 rows"):
        load_matrix(c, Q, 8, rows=rows)


def test_a_packed_file_that_shrinks(tmp_path: Path) -> None:
    manifest = write_converted(tmp_path, packed=(Q,))
    c = open_container(tmp_path, lambda _: weight_map())
    rewrite_file(tmp_path, manifest, "trunk-00001-of-00001.safetensors", {"x": NORMAL[0]})
    with pytest.raises(ContainerError, match="cut short"):
        load_matrix(c, Q, 8)

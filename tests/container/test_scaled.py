"""fp8 weights and the scales beside them: found by name, checked, read together."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_model import (
    EXPERTS,
    HIDDEN,
    INNER,
    LAYERS,
    expert_tensors,
    fused,
    trunk_tensors,
    weight_map,
    write_config,
)

from colibri.container.missing import without_data
from colibri.container.reader import Container, open_container
from colibri.container.trunk import load_matrix, load_vector, matrix_bytes
from colibri.errors import ColibriError, ContainerError, UnsupportedModelError
from colibri.formats.fp8 import Fp8Format
from colibri.formats.packed import INT8, PackedFormat, pack_matrix
from colibri.kernels.reference import fp8 as reference
from scripts import fp8

Q = "model.layers.1.q_proj.weight"
UP = "model.layers.0.experts.1.up.weight"
SCALES = "_scale_inv"


def tensors(form: fp8.Scales = "f32", together: bool = False) -> dict[str, Any]:
    experts = expert_tensors(dtype="float32")
    floats = trunk_tensors() | (fused(experts) if together else experts)
    floats = {n: t.astype(np.float32) if "q_proj" in n else t for n, t in floats.items()}
    return fp8.quantised(floats, weight_map(), form)


def opened(path: Path, stored: dict[str, Any], **config: Any) -> Container:
    write_config(path, **config)
    fp8.write_shards(path, stored, 1)
    return open_container(path, lambda _: weight_map())


def refused(path: Path, stored: dict[str, Any], kind: type[ColibriError], *says: str) -> None:
    with pytest.raises(kind) as error:
        opened(path, stored)
    for text in says:
        assert text in str(error.value)


@pytest.mark.parametrize("form", ["f32", "bf16", "ue8m0"])
def test_a_matrix_of_the_trunk(tmp_path: Path, form: fp8.Scales) -> None:
    stored = tensors(form)
    c = opened(tmp_path, stored)
    values = reference.decode(stored[Q], stored[Q + SCALES])
    assert Q + SCALES not in c.names()
    assert c.info(Q).shape == (HIDDEN, HIDDEN)
    np.testing.assert_array_equal(c.read_rows(Q, 3, 40), values[3:40])
    np.testing.assert_array_equal(c.read_all(Q), values)
    np.testing.assert_array_equal(load_vector(c, Q), values)
    m = load_matrix(c, Q, "source", rows=slice(16, 60))
    assert isinstance(m.format, Fp8Format)
    np.testing.assert_array_equal(reference.decode(*m.parts, m.first), values[16:60])
    packed, expected = load_matrix(c, Q, 8), pack_matrix(values, INT8)
    assert isinstance(packed.format, PackedFormat)
    np.testing.assert_array_equal(packed.data, expected.data)
    for bits in ("source", 8, 4):
        assert matrix_bytes(c.info(Q), bits) == load_matrix(c, Q, bits).nbytes  # type: ignore[arg-type]


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("form", ["f32", "bf16", "ue8m0"])
def test_reads_bring_experts_with_their_scales(
    tmp_path: Path, form: fp8.Scales, together: bool
) -> None:
    floats = fp8.decoded(tensors(form, together))
    c = opened(tmp_path, tensors(form, together))
    layer = c.expert_layers()[1]
    assert layer.layout.num_parts == 6
    assert layer.layout.up_first == (INNER if together else 0)
    for expert in range(EXPERTS):
        slot = np.zeros(layer.slot_bytes, np.uint8)
        for span in layer.reads(expert):
            assert span.offset % 4096 == span.nbytes % 4096 == span.slot_offset % 4096 == 0
            data = c.files.read(span.file, span.offset, span.needed)
            slot[span.slot_offset : span.slot_offset + span.needed] = data
        place = layer.parts(expert)
        for i, part in enumerate(("gate", "up", "down")):
            rows, cols = (HIDDEN, INNER) if part == "down" else (INNER, HIDDEN)
            first = layer.layout.up_first if part == "up" else 0
            codes = slot[place[i] :][: rows * cols].reshape(rows, cols)
            dtype = {"f32": np.float32, "bf16": np.uint16, "ue8m0": np.uint8}[form]
            scales = slot[place[3 + i] :][: np.dtype(dtype).itemsize].copy().view(dtype)
            got = reference.decode(codes, scales.reshape(1, 1), first)
            np.testing.assert_array_equal(got, _expert(floats, expert, part, together))


def _expert(floats: dict[str, Any], expert: int, part: str, together: bool) -> Any:
    if not together:
        return floats[f"model.layers.1.experts.{expert}.{part}.weight"]
    if part == "down":
        return floats["model.layers.1.experts.down"][expert]
    both = floats["model.layers.1.experts.gate_up"][expert]
    return both[:INNER] if part == "gate" else both[INNER:]


@pytest.mark.parametrize("name", [Q, UP])
def test_missing_scales(tmp_path: Path, name: str) -> None:
    stored = tensors()
    codes = stored.pop(name + SCALES), stored[name]
    fp8.write_shards(tmp_path, stored, 1)
    file = tmp_path / "model.safetensors"
    # Without its scales the writer cannot tell what it is.
    file.write_bytes(_renamed(file, name, "F8_E8M0", "F8_E4M3"))
    write_config(tmp_path)
    with pytest.raises(ContainerError, match=rf"{name}.*F8_E4M3.*{SCALES}' are missing"):
        open_container(tmp_path, lambda _: weight_map())
    assert codes


def _renamed(file: Path, name: str, old: str, new: str) -> bytes:
    data = file.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    assert header[name]["dtype"] == old
    header[name]["dtype"] = new
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data[8 + length :]


def test_scales_of_nothing(tmp_path: Path) -> None:
    stored = tensors()
    del stored[Q]
    stored[Q + SCALES] = np.ones((1, 1), np.float32)
    refused(tmp_path, stored, ContainerError, Q + SCALES, "which is missing")


def test_scales_of_floats(tmp_path: Path) -> None:
    stored = tensors()
    stored[Q] = np.ones((HIDDEN, HIDDEN), np.float32)
    refused(tmp_path, stored, ContainerError, f"scales of '{Q}', which is F32")


@pytest.mark.parametrize("shape", [(2, 1), (1, 2), (1,), (1, 1, 1)])
def test_scales_of_another_shape(tmp_path: Path, shape: tuple[int, ...]) -> None:
    stored = tensors()
    stored[Q + SCALES] = np.ones(shape, np.float32)
    says = f"[{HIDDEN}, {HIDDEN}] has [1, 1] blocks of 128 x 128"
    refused(tmp_path, stored, ContainerError, Q + SCALES, f"shape {list(shape)}", says)


def test_scales_of_another_dtype(tmp_path: Path) -> None:
    stored = tensors()
    stored[UP + SCALES] = np.ones((1, 1), np.float16)
    refused(tmp_path, stored, UnsupportedModelError, UP + SCALES, "F16", "F32, BF16, F8_E8M0")


def test_an_expert_with_other_scales_than_its_neighbours(tmp_path: Path) -> None:
    stored = tensors()
    stored[UP + SCALES] = np.full((1, 1), 127, np.uint8)
    refused(tmp_path, stored, UnsupportedModelError, UP, "one dtype")


def test_a_vector_in_fp8(tmp_path: Path) -> None:
    stored = tensors()
    stored["model.norm.weight"] = np.zeros(HIDDEN, np.uint8)
    stored["model.norm.weight" + SCALES] = np.ones((1, 1), np.float32)
    refused(tmp_path, stored, ContainerError, "model.norm.weight", "whose shape is")


def test_blocks_of_another_size_in_the_config(tmp_path: Path) -> None:
    said = {"quant_method": "fp8", "weight_block_size": [128, 64]}
    with pytest.raises(UnsupportedModelError, match=r"weight_block_size is \[128, 64\]"):
        opened(tmp_path, tensors(), quantization_config=said)
    said["weight_block_size"] = [128, 128]
    opened(tmp_path, tensors(), quantization_config=said)


@pytest.mark.parametrize(("row", "col"), [(0, 0), (40, 71)])
def test_a_nan_code_is_refused_by_name(tmp_path: Path, row: int, col: int) -> None:
    stored = tensors()
    stored[Q][row, col] = 0xFF
    c = opened(tmp_path, stored)
    says = rf"'{Q}': the weight at row {row}, column {col} is not finite"
    for read in (
        lambda: load_matrix(c, Q, "source"),
        lambda: load_matrix(c, Q, 4),
        lambda: c.read_rows(Q, row, row + 1),
        lambda: load_vector(c, Q),
    ):
        with pytest.raises(ContainerError, match=says):
            read()


def test_an_index_tells_what_is_fp8_in_shards_that_are_missing(tmp_path: Path) -> None:
    whole = opened(tmp_path, tensors())
    assert without_data(whole) == (0, 1)
    files = dict.fromkeys(tensors(), "model.safetensors")
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": files}))
    (tmp_path / "model.safetensors").unlink()
    found = open_container(tmp_path, lambda _: weight_map(), incomplete=True)
    assert without_data(found) == (1, 1)
    assert {n: found.info(n) for n in found.names() if "q_proj" in n} == {
        n: whole.info(n) for n in whole.names() if "q_proj" in n
    }
    assert [n.layout for n in found.expert_layers().values()] == [
        n.layout for n in whole.expert_layers().values()
    ]
    elements = 3 * HIDDEN * INNER
    assert all(elements < n.slot_bytes < elements + 3 * 4096 for n in found.layers.values())
    assert len(found.layers) == LAYERS
    assert math.prod(whole.info(Q).shape) + 4 == whole.info(Q).nbytes

import json
import os
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import safetensors.numpy
from converted_model import (
    layer_spec,
    make_record,
    rewrite_file,
    write_converted,
    write_manifest,
)
from tiny_model import EXPERTS, HIDDEN, INNER, LAYERS, expert_tensors, trunk_tensors, weight_map

from colibri.container import spec
from colibri.container.manifest import manifest_bytes, read_manifest
from colibri.container.reader import Container, open_container
from colibri.errors import ContainerError
from colibri.formats.packed import INT4, INT8, pack_matrix

Q = "model.layers.0.q_proj.weight"
EMBEDDING = "model.embed_tokens.weight"
TRUNK = "trunk-00001-of-00001.safetensors"
LAYER0 = "experts-L00000-00001-of-00001.safetensors"


def open_tiny(path: Path) -> Container:
    return open_container(path, lambda _: weight_map())


def refusal(path: Path) -> str:
    with pytest.raises(ContainerError) as e:
        open_tiny(path)
    assert str(path) in str(e.value)
    assert len(str(e.value)) < 1000
    return str(e.value)


def records(layer: int = 0) -> dict[str, np.ndarray[Any, Any]]:
    experts = expert_tensors()
    return {spec.record_name(layer, e): make_record(experts, layer, e) for e in range(EXPERTS)}


def test_one_read_gives_a_record(tmp_path: Path) -> None:
    write_converted(tmp_path)
    c = open_tiny(tmp_path)
    assert c.converted
    for n, layer in c.expert_layers().items():
        assert layer.record
        assert (layer.layout.format.name, layer.layout.hidden, layer.layout.inner) == (
            "int4-gs64", HIDDEN, INNER,
        )  # fmt: skip
        assert layer.parts(1) == (0, 0, spec.down_offset(INT4, HIDDEN, INNER))
        for e in range(EXPERTS):
            (span,) = layer.reads(e)
            assert span.offset % 4096 == span.slot_offset == 0
            assert span.nbytes == span.needed == layer.slot_bytes
            data = span.file.read_bytes()[span.offset : span.offset + span.nbytes]
            record = np.frombuffer(data, np.uint8)
            spec.verify_record(record, n, e, str(span.file))
            np.testing.assert_array_equal(record, make_record(expert_tensors(), n, e))


def test_other_tools_can_open_the_files(tmp_path: Path) -> None:
    write_converted(tmp_path)
    found = safetensors.numpy.load_file(tmp_path / LAYER0)
    assert found.keys() == records().keys()


def test_trunk_stored_packed(tmp_path: Path) -> None:
    write_converted(tmp_path, packed=(Q, EMBEDDING))
    c = open_tiny(tmp_path)
    m = pack_matrix(trunk_tensors()[Q], INT8)
    info = c.info(Q)
    assert (info.format.name, info.shape, info.nbytes) == ("int8-gs64", (HIDDEN, HIDDEN), m.nbytes)
    np.testing.assert_array_equal(c.read_packed(Q, 0, m.nbytes), m.data)
    np.testing.assert_array_equal(c.read_packed(Q, 100, 7), m.data[100:107])
    place = np.zeros(m.nbytes, np.uint8)
    assert c.read_packed(Q, 0, m.nbytes, place) is place
    np.testing.assert_array_equal(place, m.data)
    assert c.stored_bits == 8
    with pytest.raises(ValueError, match="stored packed"):
        c.read_all(Q)
    with pytest.raises(ValueError, match="f32"):
        c.read_packed("model.norm.weight", 0, 4)


def test_the_manifest_survives_writing_and_reading(tmp_path: Path) -> None:
    manifest = write_converted(tmp_path, packed=(Q,))
    assert read_manifest(tmp_path) == manifest
    assert (tmp_path / "colibri.json").read_bytes() == manifest_bytes(manifest)


@pytest.mark.parametrize("version", [0, 2, "1", None, True, 1.5, [1], "x" * 10_000])
def test_unknown_versions_are_refused_by_number(tmp_path: Path, version: Any) -> None:
    write_converted(tmp_path)
    path = tmp_path / "colibri.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "format_version": version}))
    message = refusal(tmp_path)
    assert f"format_version {ascii(version)[:40]} " in message


def set_at(value: Any, keys: list[Any], new: Any) -> None:
    *path, last = keys
    for key in path:
        value = value[key]
    value[last] = new


@pytest.mark.parametrize(
    ("keys", "value", "part"),
    [
        (["experts"], None, "$.experts"),
        (["experts", 0, "layer"], -1, "$.experts[0].layer"),
        (["experts", 0, "layer"], 10**9, "$.experts[0].layer"),
        (["experts", 0, "num_experts"], 0, "num_experts"),
        (["experts", 0, "num_experts"], 10**9, "num_experts"),
        (["experts", 0, "num_experts"], 4, "by config.json (3, "),
        (["experts", 0, "hidden"], 71, "by config.json (3, 72"),
        (["experts", 0, "hidden"], 2**70, "hidden"),
        (["experts", 0, "inner"], "40", "inner"),
        (["experts", 0, "draft"], True, "by config.json"),
        (["experts", 0, "scheme"], "int2-gs64", "scheme"),
        (["experts", 0, "scheme"], "x\n" * 9999, "scheme"),
        (["experts", 0, "scheme"], "int8-gs64", "records of"),
        (["experts", 0, "layout"], "r32-v1", "layout"),
        (["experts", 0, "record_bytes"], 8192, "records of 8192 bytes"),
        (["experts", 0, "parts"], [], "parts contradict"),
        (["experts", 0, "parts", 1, "offset"], 64, "parts contradict"),
        (["experts", 1, "layer"], 0, "listed twice"),
        (["experts", 1, "layer"], 7, "layer 1 are missing"),
        (["packed", 0, "rows"], 96, "takes U8"),
        (["packed", 0, "scheme"], "int4-gs64", "takes U8"),
        (["packed", 0, "multiplier"], 3.0, "no power of two"),
        (["packed", 0, "multiplier"], 0.0, "multiplier"),
        (["packed", 0, "name"], "model.nothing", "'model.nothing' is in no file"),
        (["packed", 1, "name"], Q, "listed twice"),
        (["packed"], [], "not listed as packed"),
        (["files", 0, "name"], "../x.safetensors", "no file name"),
        (["files", 0, "name"], "x\0.safetensors", "no file name"),
        (["files", 0, "name"], "gone.safetensors", "no such file"),
        (["files", 0, "size"], 1, "the manifest says 1"),
        (["files", 0, "size"], -1, "size"),
        (["files", 0, "tensors"], 9, "the manifest says 9"),
        (["files"], [], "is in no file"),
        (["tool"], "colibri", "$.tool"),
    ],
)
def test_a_contradictory_manifest(tmp_path: Path, keys: list[Any], value: Any, part: str) -> None:
    write_converted(tmp_path, packed=(Q, EMBEDDING))
    path = tmp_path / "colibri.json"
    manifest = json.loads(path.read_text())
    set_at(manifest, keys, value)
    path.write_text(json.dumps(manifest))
    assert part in refusal(tmp_path)


def test_a_manifest_cut_anywhere(tmp_path: Path) -> None:
    write_converted(tmp_path)
    path = tmp_path / "colibri.json"
    data = path.read_bytes()
    for size in range(0, len(data) - 2, 97):
        path.write_bytes(data[:size])
        assert str(path) in refusal(tmp_path)


def test_exact_tensors_may_not_be_packed(tmp_path: Path) -> None:
    manifest = write_converted(tmp_path, packed=(Q,))
    name = "model.norm.weight"
    packed = [*manifest.packed, msgspec.structs.replace(manifest.packed[0], name=name)]
    write_manifest(tmp_path, manifest, packed=packed)
    assert "must be exact" in refusal(tmp_path)


@pytest.mark.parametrize("file", [TRUNK, LAYER0])
@pytest.mark.parametrize("damage", ["gone", "cut", "longer", "empty"])
def test_damaged_files(tmp_path: Path, file: str, damage: str) -> None:
    write_converted(tmp_path)
    path = tmp_path / file
    data = path.read_bytes()
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes({"cut": data[:-1], "longer": data + b"x", "empty": b""}[damage])
    assert str(path) in refusal(tmp_path)


def test_a_record_too_few(tmp_path: Path) -> None:
    manifest = write_converted(tmp_path)
    some = records()
    del some["layers.0.experts.1"]
    rewrite_file(tmp_path, manifest, LAYER0, some, align=4096)
    assert "record layers.0.experts.1 is in no file" in refusal(tmp_path)


@pytest.mark.parametrize("name", ["layers.0.experts.3", "layers.9.experts.0"])
def test_a_record_too_many(tmp_path: Path, name: str) -> None:
    manifest = write_converted(tmp_path)
    some = {**records(), name: records()["layers.0.experts.0"]}
    rewrite_file(tmp_path, manifest, LAYER0, some, align=4096)
    assert f"'{name}': the manifest knows no such expert" in refusal(tmp_path)


def test_a_record_of_another_size(tmp_path: Path) -> None:
    manifest = write_converted(tmp_path)
    some = records()
    some["layers.0.experts.2"] = some["layers.0.experts.2"][4096:]
    rewrite_file(tmp_path, manifest, LAYER0, some, align=4096)
    assert "'layers.0.experts.2': U8" in refusal(tmp_path)


def test_records_that_are_not_aligned(tmp_path: Path) -> None:
    manifest = write_converted(tmp_path)
    rewrite_file(tmp_path, manifest, LAYER0, records(), align=8)
    assert "at a multiple of 4096" in refusal(tmp_path)


def test_a_record_in_two_files(tmp_path: Path) -> None:
    manifest = write_converted(tmp_path)
    other = LAYER0.replace("L00000", "L00001")
    rewrite_file(tmp_path, manifest, other, records(), align=4096)
    message = refusal(tmp_path)
    assert f"'layers.0.experts.0' is in both {LAYER0} and {other}" in message


def test_trunk_tensors_are_checked_as_in_a_checkpoint(tmp_path: Path) -> None:
    manifest = write_converted(tmp_path)
    trunk = trunk_tensors()
    rewrite_file(tmp_path, manifest, TRUNK, {**trunk, "odd": np.zeros(1, np.float32)})
    assert "'odd'" in refusal(tmp_path)
    rewrite_file(tmp_path, manifest, TRUNK, {**trunk, "model.norm.weight": np.zeros(9, np.float32)})
    assert "shape [9]" in refusal(tmp_path)
    dropped = {**trunk, "model.layers.0.rotary.inv_freq": np.zeros(9, np.float32)}
    rewrite_file(tmp_path, manifest, TRUNK, dropped)
    assert "not part of the trunk" in refusal(tmp_path)


def test_leftovers_of_a_conversion_are_ignored(tmp_path: Path) -> None:
    write_converted(tmp_path)
    (tmp_path / "experts-L00001.safetensors.part").write_bytes(b"half")
    (tmp_path / ".coli_convert.json").write_text("{}")
    assert len(open_tiny(tmp_path).expert_layers()) == LAYERS


def test_draft_layers_of_the_manifest(tmp_path: Path) -> None:
    manifest = write_converted(tmp_path)
    c = open_container(tmp_path, lambda _: weight_map(draft=True))
    assert list(c.expert_layers()) == [0, 1]
    extra = msgspec.structs.replace(layer_spec(LAYERS), draft=True)
    write_manifest(tmp_path, manifest, experts=[*manifest.experts, extra])
    assert "layer 2" in refusal(tmp_path)


def test_opening_reads_headers_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def counted(fd: int, buffers: list[memoryview], offset: int) -> int:
        nonlocal total
        n = real(fd, buffers, offset)
        total += n
        return n

    real, total = os.preadv, 0
    write_converted(tmp_path)
    monkeypatch.setattr(os, "preadv", counted)
    open_tiny(tmp_path)
    assert total < 30_000

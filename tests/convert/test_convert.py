from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from convert_kit import DRAFT_LAYER, Model, tree, write_checkpoint
from safetensors.numpy import load_file

from colibri.container.header import read_header
from colibri.container.manifest import read_manifest
from colibri.container.reader import open_container
from colibri.container.spec import verify_record
from colibri.container.trunk import load_embedding, load_matrix, load_vector
from colibri.convert import ConvertProgress, convert
from colibri.convert import plan as plan_module
from colibri.formats.packed import PackedFormat, pack_expert
from colibri.formats.table import FORMATS

MODEL = Model()


def run(source: Path, destination: Path, model: Model = MODEL, **options: Any) -> Any:
    return convert(source, destination, weights=model.weights, family="toy", **options)


def records(directory: Path) -> dict[str, bytes]:
    out = {}
    for path in sorted(directory.glob("experts-*.safetensors")):
        out.update({name: a.tobytes() for name, a in load_file(path).items()})
    return out


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_checkpoint(tmp_path / "source", MODEL.tensors(), shards=3, index=True)


@pytest.mark.parametrize("dtype", ["bf16", "f16", "f32"])
@pytest.mark.parametrize("shape", [(136, 40), (64, 16), (192, 200), (7, 5)])
def test_round_trip(tmp_path: Path, dtype: str, shape: tuple[int, int]) -> None:
    model = Model(*shape, experts=2)
    tensors = model.tensors(dtype=dtype)
    out = tmp_path / "out"
    run(write_checkpoint(tmp_path / "source", tensors), out, model)
    container = open_container(out, lambda config: model.weights)
    assert container.converted
    for name in container.names():
        np.testing.assert_array_equal(container.read_all(name), tensors[name])
    for layer, experts in container.expert_layers().items():
        scheme = "int8-gs64" if layer == DRAFT_LAYER else "int4-gs64"
        assert experts.layout.format.name == scheme
        assert experts.draft == (layer == DRAFT_LAYER)
        for e in range(model.experts):
            (span,) = experts.reads(e)
            with span.file.open("rb") as f:
                f.seek(span.offset)
                record = np.frombuffer(f.read(span.nbytes), np.uint8)
            tail = verify_record(record, layer, e, "here")
            at = f"model.layers.{layer}.mlp.experts.{e}."
            parts = (tensors[f"{at}{p}_proj.weight"] for p in ("gate", "up", "down"))
            body, multipliers = pack_expert(*parts, FORMATS[scheme])  # type: ignore[arg-type]
            assert tail.multipliers == multipliers
            np.testing.assert_array_equal(record[: len(body)], body)
            assert not record[len(body) : -64].any()


@pytest.mark.parametrize("bits", [8, 4])
def test_packed_trunk_equals_quantisation_at_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bits: Any
) -> None:
    monkeypatch.setattr("colibri.convert.source.BLOCK_BYTES", 3000)  # several blocks a matrix
    tensors = MODEL.tensors(dtype="f32")
    tensors["lm_head.weight"] *= np.float32(1e-7)  # its scales leave fp16: a multiplier is needed
    source = write_checkpoint(tmp_path / "source", tensors)
    manifest = run(source, tmp_path / "out", store_trunk=bits)
    loaded = open_container(source, lambda config: MODEL.weights)
    stored = open_container(tmp_path / "out", lambda config: MODEL.weights)
    packed = {p.name: p for p in manifest.packed}
    assert any(p.multiplier != 1 for p in packed.values())
    for name, p in packed.items():
        want_bits = 8 if p.scheme == "int8-gs64" else 4
        a, b = load_matrix(loaded, name, want_bits), load_matrix(stored, name, want_bits)
        assert isinstance(a.format, PackedFormat)
        assert isinstance(b.format, PackedFormat)
        assert (a.format, a.multiplier) == (b.format, b.multiplier)
        np.testing.assert_array_equal(a.data, b.data)
    assert packed["lm_head.weight"].scheme == f"int{bits}-gs64"
    assert packed["model.embed_tokens.weight"].scheme == "int8-gs64"
    assert load_embedding(stored, "model.embed_tokens.weight", 8).rows == 50
    exact = [n for n in stored.names() if n not in packed]
    assert all("norm" in n or "mlp.gate" in n or "kv_b" in n for n in exact)
    name = "model.layers.1.mlp.gate.bias"
    np.testing.assert_array_equal(load_vector(stored, name), tensors[name])


def test_every_form_of_source_gives_the_same_weights(tmp_path: Path) -> None:
    tensors = MODEL.tensors()
    forms = {
        "single": write_checkpoint(tmp_path / "single", tensors),
        "single-index": write_checkpoint(tmp_path / "single-index", tensors, index=True),
        "numbered": write_checkpoint(tmp_path / "numbered", tensors, shards=4),
        "index": write_checkpoint(tmp_path / "index", tensors, shards=5, index=True),
        "fused": write_checkpoint(tmp_path / "fused", MODEL.fused(tensors), shards=2),
    }
    shards = {}
    for name, source in forms.items():
        run(source, tmp_path / "out" / name)
        files = tree(tmp_path / "out" / name)
        shards[name] = {n: h for n, h in files.items() if n.endswith(".safetensors")}
    assert len(shards["single"]) == 4
    for name in forms:
        assert shards[name] == shards["single"], name


def test_files_are_what_the_format_says(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    manifest = run(source, out)
    assert manifest == read_manifest(out)
    listed = {f.name: f.sha256 for f in manifest.files}
    assert listed == {n: h for n, h in tree(out).items() if n != "colibri.json"}
    assert "LICENSE" in listed
    assert [f.name for f in manifest.source.files] == [
        p.name for p in sorted(source.glob("*.safetensors"))
    ]
    assert str(tmp_path) not in (out / "colibri.json").read_text()
    for path in out.glob("*.safetensors"):
        infos, _ = read_header(path)
        assert min(i.offset for i in infos.values()) % 4096 == 0
        widths = {"U8": 1, "BF16": 2, "F32": 4}
        assert all(i.offset % widths[i.dtype] == 0 for i in infos.values())
        assert load_file(path).keys() == infos.keys() if "experts" in path.name else True
    dropped = "model.layers.0.self_attn.rotary_emb.inv_freq"
    trunk, _ = read_header(out / "trunk-00001-of-00001.safetensors")
    assert dropped not in trunk
    assert trunk.keys() == {
        n for n in MODEL.tensors() if ".experts." not in n and "inv_freq" not in n
    }


def test_shards_are_bounded(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = tmp_path / "whole"
    run(source, whole)
    monkeypatch.setattr(plan_module, "MAX_SHARD_BYTES", 40_000)
    parts = tmp_path / "parts"
    manifest = run(source, parts)
    assert records(parts) == records(whole)
    names = [f.name for f in manifest.files]
    assert "experts-L00001-00002-of-00002.safetensors" in names
    assert any(n.startswith("trunk-00002-of-") for n in names)
    container = open_container(parts, lambda config: MODEL.weights)
    assert set(container.names()) == set(open_container(whole, lambda c: MODEL.weights).names())


def test_a_draft_layer_may_be_absent(tmp_path: Path) -> None:
    model = Model(draft=False)
    manifest = run(write_checkpoint(tmp_path / "source", model.tensors()), tmp_path / "out", model)
    assert [spec.layer for spec in manifest.experts] == [1, 2]


def test_progress(source: Path, tmp_path: Path) -> None:
    seen: list[ConvertProgress] = []
    run(source, tmp_path / "out", progress=seen.append)
    assert [p.bytes_done for p in seen] == sorted(p.bytes_done for p in seen)
    assert seen[-1].bytes_done == seen[-1].bytes_total > 0
    kept = [t for n, t in MODEL.tensors().items() if "inv_freq" not in n]
    assert seen[-1].bytes_total == sum(t.nbytes for t in kept)
    assert {p.phase for p in seen} == {"copy", "trunk", "experts", "finished"}
    assert seen[0].eta_seconds is None
    assert seen[-1].eta_seconds == 0


def test_the_index_of_the_source_is_not_copied(source: Path, tmp_path: Path) -> None:
    run(source, tmp_path / "out")
    assert not list((tmp_path / "out").glob("*.index.json"))
    json.loads((tmp_path / "out" / "config.json").read_text())

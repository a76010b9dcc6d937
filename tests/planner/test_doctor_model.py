"""What the doctor says of a model's directory, whatever state that is in."""

import hashlib
import json
import os
import shutil
from dataclasses import replace

import numpy as np
import pytest
from doctor_kit import GOOD
from hypothesis import given, settings
from hypothesis import strategies as st

import golden
from colibri.config import EngineConfig
from colibri.container.header import read_header
from colibri.errors import ColibriError
from colibri.hardware.iobench import DiskRate
from colibri.llm import embedded_model
from colibri.planner.doctor.case import Case, Depth, ModelFiles
from colibri.planner.doctor.examine import CHECKS, examine
from colibri.planner.doctor.finding import Finding, verdict
from scripts import fp8

OF_MODELS = [check for check in CHECKS if check[0].startswith(("model.", "text."))]


def look(path, depth=Depth(), checks=OF_MODELS, **machine):  # noqa: B008
    """Findings that are no pass, by check."""
    case = Case(ModelFiles(path), EngineConfig(), replace(GOOD, **machine), depth)
    found = {}
    for finding in examine(case, checks):
        if finding.status in ("warn", "fail"):
            assert finding.what
            assert finding.fix, finding
            found.setdefault(finding.check, []).append(finding)
    return found


@pytest.fixture
def demo(tmp_path):
    return shutil.copytree(embedded_model(), tmp_path / "demo")


@pytest.fixture
def tiny(tmp_path):
    return shutil.copytree(golden.tiny("olmoe"), tmp_path / "olmoe")


@pytest.mark.parametrize("family", golden.FAMILIES)
@pytest.mark.parametrize("variant", ["source", "int4"])
def test_every_family_is_told_by_the_code_that_runs_it(model_of, family, variant):
    """B099."""
    case = Case(ModelFiles(model_of(family, variant)), EngineConfig(), GOOD, Depth(True))
    by_check = {f.check: f for f in examine(case, OF_MODELS)}
    assert f"run by colibri.models.{family}" in by_check["model.config"].what
    failures = [f for f in by_check.values() if f.status == "fail"]
    assert failures == []


def test_the_embedded_model_is_well(demo):
    assert look(demo, Depth(deep=True, hashes=True), CHECKS) == {}


def edit_json(path, **fields):
    data = json.loads(path.read_text())
    path.write_text(json.dumps({**data, **fields}))


def flip(path, offset):
    with path.open("r+b") as file:
        file.seek(offset, os.SEEK_SET if offset >= 0 else os.SEEK_END)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 0xFF]))


EXPERTS = "experts-L00003-00001-of-00001.safetensors"
TRUNK = "trunk-00001-of-00001.safetensors"


@pytest.mark.parametrize(
    ("damage", "check", "word"),
    [
        (lambda d: (d / "config.json").unlink(), "model.directory", "config.json"),
        (lambda d: shutil.rmtree(d), "model.directory", "no such directory"),
        (lambda d: (d / "config.json").write_text("{"), "model.config", "no valid JSON"),
        (lambda d: edit_json(d / "config.json", model_type="gpt2"), "model.config", "'gpt2'"),
        (lambda d: edit_json(d / "config.json", hidden_act="gelu"), "model.config", "hidden_act"),
        (lambda d: (d / "colibri.json").write_text("[]"), "model.config", "colibri.json"),
        (
            lambda d: edit_json(d / "colibri.json", family="olmoe"),
            "model.config",
            "converted as 'olmoe'",
        ),
        (lambda d: (d / EXPERTS).write_bytes(b""), "model.headers", "empty"),
        (lambda d: (d / EXPERTS).unlink(), "model.shards", "is missing"),
        (lambda d: (d / EXPERTS).write_bytes((d / TRUNK).read_bytes()), "model.tensors", "says"),
        (lambda d: shutil.copy(d / EXPERTS, d / "more.safetensors"), "model.shards", "not part"),
        (lambda d: (d / (EXPERTS + ".part")).touch(), "model.leftovers", "interrupted"),
        (lambda d: flip(d / EXPERTS, -64), "model.records", "tail is missing"),
        (lambda d: (d / "tokenizer.json").unlink(), "text.tokenizer", "no tokenizer.json"),
        (lambda d: (d / "tokenizer.json").write_text("{}"), "text.tokenizer", "no model object"),
        (lambda d: (d / "chat_template.jinja").unlink(), "text.template", "no chat template"),
        (
            lambda d: (d / "chat_template.jinja").write_text("{{ no"),
            "text.template",
            "not a usable template",
        ),
        (
            lambda d: (d / "chat_template.jinja").write_text("hello"),
            "text.template",
            "leaves out",
        ),
        (
            lambda d: edit_json(d / "generation_config.json", temperature=-1),
            "text.generation",
            "temperature",
        ),
    ],
)
def test_damage_is_named_by_its_check(demo, damage, check, word):
    damage(demo)
    found = look(demo)
    assert word in "\n".join(f.what for f in found[check])


def test_a_foreign_format_is_named(tmp_path):
    (tmp_path / "model.gguf").touch()
    (found,) = look(tmp_path)["model.directory"]
    assert "GGUF" in found.what


def test_an_unfinished_conversion_is_named(tmp_path):
    (tmp_path / ".coli_convert.json").write_text("{}")
    (found,) = look(tmp_path)["model.directory"]
    assert "unfinished conversion" in found.what


def test_a_missing_shard_of_a_download_is_named(tiny):
    (tiny / "model.safetensors").rename(tiny / "model-00001-of-00002.safetensors")
    (found,) = look(tiny)["model.shards"]
    assert "model-00002-of-00002.safetensors" in found.what


def test_eos_tokens_beyond_the_vocabulary_end_nothing(tiny):
    edit_json(tiny / "config.json", eos_token_id=None)
    edit_json(tiny / "generation_config.json", eos_token_id=10**6)
    (found,) = look(tiny)["text.generation"]
    assert found.status == "fail"
    assert found.where.endswith("generation_config.json")
    edit_json(tiny / "generation_config.json", eos_token_id=None)
    for own in ({"eos_token_id": 10**6}, {"text_config": {"eos_token_id": [10**6]}}):
        edit_json(tiny / "config.json", **own)
        (found,) = look(tiny)["text.generation"]
        assert found.status == "fail"
        assert "/config.json" in found.where
        edit_json(tiny / "config.json", **dict.fromkeys(own))
    (found,) = look(tiny)["text.generation"]
    assert found.status == "warn"


def test_only_deep_sees_damage_inside_a_record(demo):
    flip(demo / EXPERTS, 100_000)
    assert "model.records" not in look(demo)
    (found,) = look(demo, Depth(deep=True))["model.records"]
    assert "checksum" in found.what
    assert found.where.endswith(EXPERTS)


def test_a_sample_reads_so_many_records(demo):
    case = Case(ModelFiles(demo), EngineConfig(), GOOD, Depth(deep=True, sample=7))
    (found,) = [f for f in examine(case) if f.check == "model.records"]
    assert "7 of 160" in found.what


def test_deep_sees_weights_that_are_not_finite(tiny):
    file = tiny / "model.safetensors"
    with file.open("r+b") as data:
        data.seek(-4, os.SEEK_END)
        data.write(np.float32(np.nan).tobytes())
    assert "model.records" not in look(tiny)
    (found,) = look(tiny, Depth(deep=True))["model.records"]
    assert "not finite" in found.what


def test_deep_sees_codes_of_fp8_that_are_no_numbers(tmp_path):
    model = fp8.write(golden.tiny("glm_moe_dsa"), tmp_path / "fp8", fused=True)
    assert "model.records" not in look(model, Depth(deep=True))
    name = "model.layers.2.mlp.experts.down_proj"
    info = read_header(model / "model.safetensors")[0][name]
    with (model / "model.safetensors").open("r+b") as data:
        data.seek(info.offset + info.nbytes - 1)
        data.write(b"\x7f")
    assert "model.records" not in look(model)
    (found,) = look(model, Depth(deep=True))["model.records"]
    assert name in found.what


def test_only_hashes_see_damage_in_the_trunk(demo):
    flip(demo / TRUNK, -1)
    assert look(demo, Depth(deep=True)) == {}
    (found,) = look(demo, Depth(hashes=True))["model.hashes"]
    assert found.where.endswith(TRUNK)


def test_hashes_of_a_download_are_found_where_the_client_left_them(tiny):
    data = (tiny / "model.safetensors").read_bytes()
    note = tiny / ".cache/huggingface/download/model.safetensors.metadata"
    note.parent.mkdir(parents=True)
    note.write_text(f"{'0' * 40}\n{hashlib.sha256(data).hexdigest()}\n1.0\n")
    assert "model.hashes" not in look(tiny, Depth(hashes=True))
    flip(tiny / "model.safetensors", -1)
    (found,) = look(tiny, Depth(hashes=True))["model.hashes"]
    assert found.status == "fail"


def test_many_damaged_records_are_counted_not_listed(demo):
    for file in demo.glob("experts-*"):
        content = bytearray(file.read_bytes())
        start = 8 + int.from_bytes(content[:8], "little")
        content[start:] = bytes(len(content) - start)
        file.write_bytes(content)
    found = look(demo)["model.records"]
    assert len(found) == 11
    assert found[-1].what == "and 150 more like these"


def test_each_defect_is_told_once(demo):
    (demo / "config.json").write_text("")
    found = look(demo, checks=CHECKS, disk_rate=lambda e: DiskRate(2e9, True, 1))
    assert list(found) == ["model.config"]


def test_an_error_of_a_check_is_its_finding():
    def broken(case):
        raise MemoryError

    def refused(case):
        raise ColibriError("no")

    checks = [("a", broken, "x"), ("b", refused, "do that")]
    case = Case(ModelFiles(embedded_model()), EngineConfig(), GOOD)
    a, b = examine(case, checks)
    assert (a.status, b.status) == ("fail", "fail")
    assert (b.what, b.fix) == ("no", "do that")


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        (["pass", "skip"], "ready"),
        (["pass", "warn"], "ready, with warnings"),
        (["warn", "fail", "pass"], "not ready"),
    ],
)
def test_the_verdict(states, expected):
    assert verdict([Finding("x", s, "", "", "") for s in states]) == expected


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_whatever_lies_there_it_answers(tmp_path_factory, data):
    """Files cut, changed, made directories or links to nowhere: findings, no traceback."""
    path = tmp_path_factory.mktemp("any") / "model"
    shutil.copytree(golden.tiny("olmoe"), path)
    names = sorted(os.listdir(path))
    for name in data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True)):
        file = path / name
        content = file.read_bytes()
        kind = data.draw(st.sampled_from(["cut", "text", "flip", "folder", "link", "gone"]))
        file.unlink()
        if kind == "cut":
            file.write_bytes(content[: data.draw(st.integers(0, len(content)))])
        elif kind == "text":
            file.write_bytes(data.draw(st.binary(max_size=40)))
        elif kind == "flip":
            place = data.draw(st.integers(0, min(len(content), 5000) - 1))
            file.write_bytes(
                content[:place] + bytes([content[place] ^ 0x20]) + content[place + 1 :]
            )
        elif kind == "folder":
            file.mkdir()
        elif kind == "link":
            file.symlink_to("nowhere")
    look(path, Depth(deep=True, hashes=True), CHECKS)
    shutil.rmtree(path)

"""`coli list`: what is here, and why some of it does not run."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

import golden
from cli.conftest import Coli


@pytest.fixture(autouse=True)
def _no_bench(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def copied(place: Path, family: str = "olmoe") -> Path:
    return Path(shutil.copytree(golden.tiny(family), place))


def in_hub(hub: Path, name: str) -> Path:
    repository = hub / ("models--" + name.replace("/", "--"))
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text("c0ffee")
    return copied(repository / "snapshots" / "c0ffee")


def listed(coli: Coli, *arguments: str) -> dict[str, Any]:
    shown = coli("list", "--json", *arguments)
    assert (shown.code, shown.err) == (0, "")
    return {m["name"]: m for m in json.loads(shown.out)["models"]}


def test_the_embedded_model_alone(coli: Coli) -> None:
    shown = coli("list")
    assert shown.code == 0
    head, row = shown.out.splitlines()
    assert head.split()[:2] == ["model", "family"]
    assert row.split()[:5] == [
        "colibri-demo",
        "(embedded)",
        "glm_moe_dsa",
        "int4-gs64",
        "converted",
    ]
    assert row.endswith("yes")
    assert "hf download" in shown.err


def test_models_of_the_hub_by_the_name_that_model_takes(coli: Coli, tmp_path: Path) -> None:
    snapshot = in_hub(tmp_path / "hub", "a/tiny")
    found = listed(coli)["a/tiny"]
    assert (found["family"], found["precision"], found["converted"]) == ("olmoe", "f32", False)
    assert found["bytes"] == sum(f.stat().st_size for f in snapshot.iterdir())
    assert found["runs"] is True
    assert coli("info", "-m", "a/tiny").code == 0


def test_a_directory_is_a_model_or_holds_some(coli: Coli, tmp_path: Path) -> None:
    one = copied(tmp_path / "models" / "one")
    two = copied(tmp_path / "models" / "two", "mixtral")
    (tmp_path / "models" / "notes").mkdir()
    names = listed(coli, str(tmp_path / "models"), str(one)).keys()
    assert [name for name in names if "models" in name] == [str(one), str(two)]


def test_the_model_of_the_settings_with_its_further_directories(
    coli: Coli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = copied(tmp_path / "model")
    (tmp_path / "more").mkdir()
    shard = next(model.glob("*.safetensors"))
    shard.rename(tmp_path / "more" / shard.name)
    monkeypatch.setenv("COLI_MODEL", str(model))
    assert listed(coli)[str(model)]["runs"] is False
    assert listed(coli, "--model-dirs", str(tmp_path / "more"))[str(model)]["runs"] is True


def broken_config(model: Path) -> None:
    (model / "config.json").write_text("{")


def other_family(model: Path) -> None:
    (model / "config.json").write_text('{"model_type": "bert"}')


def no_config(model: Path) -> None:
    (model / "config.json").unlink()


def no_shard(model: Path) -> None:
    (next(model.glob("*.safetensors"))).unlink()


def short_shard(model: Path) -> None:
    shard = next(model.glob("*.safetensors"))
    os.truncate(shard, shard.stat().st_size - 8)


def bad_tokenizer(model: Path) -> None:
    (model / "tokenizer.json").write_text("[]")


def quantised(model: Path) -> None:
    config = json.loads((model / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "awq"}
    (model / "config.json").write_text(json.dumps(config))


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (broken_config, "config.json: no valid JSON"),
        (other_family, "model_type = 'bert' is not supported"),
        (no_config, "holds no config.json"),
        (no_shard, "no .safetensors files here"),
        (short_shard, "half-downloaded: 1 of 1 file is not complete"),
        (bad_tokenizer, "tokenizer.json: "),
        (quantised, "quantised by AWQ"),
    ],
)
def test_what_does_not_run_is_a_row_with_the_reason(
    coli: Coli, tmp_path: Path, spoil: Any, why: str
) -> None:
    model = copied(tmp_path / "model")
    spoil(model)
    found = listed(coli, str(model))[str(model)]
    assert found["runs"] is False
    assert why in found["problem"]
    assert "\n" not in found["problem"]
    assert str(model) not in found["problem"]
    row = next(line for line in coli("list", str(model)).out.splitlines() if str(model) in line)
    assert row.endswith(f"no: {found['problem']}")


def test_a_half_downloaded_model_still_says_what_it_is(coli: Coli, tmp_path: Path) -> None:
    model = copied(tmp_path / "model")
    short_shard(model)
    found = listed(coli, str(model))[str(model)]
    assert (found["family"], found["precision"]) == ("olmoe", "f32")


def test_too_little_memory(coli: Coli, tmp_path: Path) -> None:
    model = copied(tmp_path / "model")
    found = listed(coli, str(model), "--ram", "10MB")[str(model)]
    assert found["problem"].startswith("a memory budget of 10 MB does not suffice: the least")


def test_a_cached_model_without_a_snapshot(coli: Coli, tmp_path: Path) -> None:
    (tmp_path / "hub" / "models--a--b" / "blobs").mkdir(parents=True)
    assert listed(coli)["a/b"]["problem"] == "the hub's cache holds no snapshot of it"


def test_a_cache_that_is_no_directory_and_a_place_that_is_not_there(
    coli: Coli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "file"))
    rows = listed(coli, str(tmp_path / "none"), str(tmp_path / "file"))
    assert rows[str(tmp_path / "none")]["problem"] == "no such directory"
    assert "is a file" in rows[str(tmp_path / "file")]["problem"]


def test_a_name_that_is_no_text(coli: Coli, tmp_path: Path) -> None:
    model = copied(tmp_path / os.fsdecode(b"mod\xffel"))
    assert str(tmp_path / "mod?el") in listed(coli, str(model))


def test_a_setting_that_is_wrong_is_an_error(coli: Coli) -> None:
    shown = coli("list", "--ram", "much")
    assert shown.code == 2
    assert shown.err.startswith("coli: error: ")

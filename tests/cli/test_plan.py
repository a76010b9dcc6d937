from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import golden
from colibri.hardware.neighbours import Neighbour
from colibri.kernels.cpu import supported_paths
from colibri.planner.budget import Machine

GB = 10**9
OTHER = Neighbour(77, 3 * GB, "coli chat -m big")
KNOWN = ("--disk", "3.5GB/s", "--memory", "40GB/s")


@pytest.fixture(autouse=True)
def _machine(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(8 * GB, 4 * GB, 60_000_000, (OTHER,))
    monkeypatch.setattr("colibri.planner.assess.this_machine", lambda: machine)


@pytest.mark.parametrize("family", golden.FAMILIES)
def test_every_family_is_planned_item_by_item(coli: Any, family: str) -> None:
    outcome = coli("plan", str(golden.tiny(family)), "--ram", "1GB", *KNOWN)
    assert (outcome.code, outcome.err) == (0, "")
    for line in (
        "process",
        "tokenizer",
        "trunk",
        "state",
        "activations",
        "experts",
        "peak",
        "layers 0",
    ):
        assert f"\n{line}" in outcome.out
    assert f"({family})" in outcome.out
    assert "rates       memory 40.00 GB/s, disk 3.50 GB/s (one expert at a time)" in outcome.out


def test_the_document_adds_up(coli: Any) -> None:
    outcome = coli("plan", str(golden.tiny("olmoe")), "--json", "--cache-experts", "2", *KNOWN)
    plan = json.loads(outcome.out)
    assert plan["version"] == 1
    assert plan["fits"]
    assert sum(item["bytes"] for item in plan["items"]) == plan["peak_bytes"]
    experts = next(item["bytes"] for item in plan["items"] if item["name"] == "experts")
    assert sum(layer["arena_bytes"] for layer in plan["layers"]) == experts
    assert plan["forecast"]["bottleneck"] == "interpreter"
    assert plan["forecast"]["hit_rate"] == pytest.approx(0.25, abs=1e-6)
    assert plan["machine"]["colibri_processes"] == [
        {"pid": 77, "rss_bytes": 3 * GB, "command": "coli chat -m big"}
    ]


def test_rates_are_measured_where_they_are_not_given(coli: Any) -> None:
    rates = json.loads(coli("plan", str(golden.tiny("olmoe")), "--json").out)["rates"]
    assert min(rates.values()) > 1e6
    given = json.loads(coli("plan", str(golden.tiny("olmoe")), "--json", *KNOWN).out)["rates"]
    assert given == {"memory": 40e9, "disk": 3.5e9, "compute": None}


def test_recorded_usage_makes_the_forecast(coli: Any, tmp_path: Path) -> None:
    shutil.copytree(golden.tiny("olmoe"), tmp_path / "m")
    model = str(tmp_path / "m")
    arguments = ("plan", model, "--json", "--cache-experts", "2", *KNOWN)
    assert json.loads(coli(*arguments).out)["forecast"]["hits_from"] == "even draws"
    run = ("run", "-q", "-m", model, "--max-tokens", "110", "--ignore-eos", "--temperature", "0")
    for prompt in range(6):
        assert coli(*run, "--ids", str(prompt)).code == 0
    found = json.loads(coli(*arguments).out)["forecast"]
    assert found["hits_from"] == "usage"
    assert found["hit_rate"] > 0.26
    off = json.loads(coli(*arguments, "--usage", "off").out)["forecast"]
    assert off["hits_from"] == "even draws"
    (tmp_path / "m" / ".coli_usage").write_text("not usage")
    assert json.loads(coli(*arguments).out)["forecast"]["hits_from"] == "even draws"


def test_without_a_model_the_embedded_one(coli: Any) -> None:
    assert "/demo (glm_moe_dsa)" in coli("plan", *KNOWN).out


def test_another_machine_is_planned_on_this_one(coli: Any) -> None:
    path = "avx2" if "avx2" not in supported_paths() else "neon_i8mm"
    larger = ("--ram", "64GB", "--threads", "1000", "--cpu", path)
    for model in (golden.tiny("olmoe"), golden.tiny("qwen3_moe")):
        outcome = coli("plan", str(model), *larger, *KNOWN)
        assert (outcome.code, outcome.err) == (0, "")
        assert "budget      64,000 MB: --ram 64GB" in outcome.out
        assert "note: --ram 64GB is more than the 8,000 MB of this machine" in outcome.out
        assert "note: --threads 1000: this machine lets" in outcome.out
        assert f"note: --cpu {path} is not in this processor" in outcome.out
    smaller = coli("plan", str(golden.tiny("olmoe")), "--ram", "7GB", "--threads", "1", *KNOWN).out
    assert "of this machine" not in smaller
    assert "lets" not in smaller
    share = coli("plan", str(golden.tiny("olmoe")), "--ram", "90%", *KNOWN).out
    assert "budget      7,200 MB: --ram 90% of 8,000 MB" in share


def test_another_process_is_named_and_may_be_assumed_gone(coli: Any) -> None:
    model = str(golden.tiny("olmoe"))
    beside = coli("plan", model, *KNOWN).out
    assert "budget      3,660 MB: 90% of the 4,000 MB that are free" in beside
    assert "beside      process 77 runs colibri and holds 3,000 MB: coli chat -m big" in beside
    assert "note: another colibri process holds 3,000 MB (pid 77)" in beside
    free = coli("plan", model, "--assume-free", *KNOWN).out
    assert "budget      6,360 MB: 90% of the 7,000 MB that are free" in free
    assert "note:" not in free


def test_a_refusal_lists_the_items_and_what_is_missing(coli: Any) -> None:
    outcome = coli("plan", str(golden.tiny("olmoe")), "--ram", "50MB", *KNOWN)
    assert outcome.code == 5
    assert "\ntrunk" in outcome.out
    assert "the least that works is" in outcome.err
    assert "more than the budget" in outcome.err
    plan = json.loads(
        coli("plan", str(golden.tiny("olmoe")), "--json", "--ram", "50MB", *KNOWN).out
    )
    assert not plan["fits"]
    assert plan["least_bytes"] > plan["budget_bytes"]


def test_headers_without_a_disk_have_no_speed(coli: Any, tmp_path: Path) -> None:
    shutil.copytree(golden.tiny("olmoe"), tmp_path / "m")
    file = tmp_path / "m" / "model.safetensors"
    data = file.read_bytes()
    file.write_bytes(data[: 8 + int.from_bytes(data[:8], "little")])
    arguments = ("plan", str(tmp_path / "m"), "--cache-experts", "2", "--memory", "40GB/s")
    outcome = coli(*arguments)
    assert outcome.code == 0
    assert "headers only: 1 of 1 file" in outcome.out
    assert "as converted to int4-gs64" in outcome.out
    assert "speed       not known: there is nothing to measure the disk with" in outcome.out
    assert "speed       about" in coli(*arguments, "--disk", "1GB").out


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["--model", "a", "b"], 2, "give one of them"),
        (["--disk", "fast"], 2, "--disk: 'fast'"),
        (["--memory", "40"], 2, "--memory: '40' has no unit"),
        (["--scheme", "int2"], 2, "--scheme"),
        (["nowhere"], 4, "no such directory"),
        (["--scheme", "int4-gs64"], 2, "converted already"),
    ],
)
def test_what_cannot_be_is_one_line(coli: Any, arguments: list[str], code: int, says: str) -> None:
    outcome = coli("plan", *arguments)
    assert (outcome.code, outcome.out) == (code, "")
    assert says in outcome.err
    assert outcome.err.count("\n") == 1


def test_no_model_an_empty_folder_a_file_an_unknown_family(
    coli: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "holds no config.json" in coli("plan", str(tmp_path)).err
    (tmp_path / "file").write_text("")
    assert "give the model's directory" in coli("plan", str(tmp_path / "file")).err
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    assert "'llama' is not supported" in coli("plan", str(tmp_path)).err
    monkeypatch.setattr("colibri.llm.embedded_model", lambda: tmp_path / "gone")
    outcome = coli("plan")
    assert outcome.code == 2
    assert "--model or COLI_MODEL" in outcome.err


def test_a_mirror_is_looked_at(coli: Any, tmp_path: Path) -> None:
    model, missing = str(golden.tiny("olmoe")), str(tmp_path / "nope")
    outcome = coli("plan", model, "--mirror", missing, *KNOWN)
    assert (outcome.code, outcome.err) == (4, f"coli: error: {missing}: no such directory\n")
    outcome = coli("plan", model, "--mirror", str(tmp_path), *KNOWN)
    assert "holds nothing of this model's experts" in outcome.err
    shutil.copytree(model, tmp_path / "copy")
    outcome = coli("plan", model, "--mirror", str(tmp_path / "copy"), *KNOWN)
    assert outcome.code == 0
    assert "what a mirror adds is not in it" in outcome.out

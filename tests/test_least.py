"""The least that works, as every command says it, is the least that works."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import colibri
import golden
from text import tokenizer_kit as kit

MB = 1_000_000
COLI = (sys.executable, "-c", "from colibri.cli import main; main()")
RATES = ("--disk", "1GB/s", "--memory", "1GB/s")


def clean_environ() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("COLI_")}


def coli(*arguments: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own, whose memory is its own."""
    return subprocess.run(
        [*COLI, *arguments], capture_output=True, text=True, check=False, env=clean_environ()
    )


def model_of(kind: str, directory: Path) -> Path:
    """The embedded one, one without a tokenizer, or one whose tokenizer is most of it."""
    if kind == "embedded":
        return Path(colibri.__file__).parent / "demo"
    shutil.copytree(golden.tiny("qwen3_moe"), directory / "m")
    if kind != "bare":
        # Ids that the model does not have are none of an answer's.
        kit.write_large(directory / "m", 60_000, pairs=kind == "pairs")
    return directory / "m"


@pytest.mark.parametrize("kind", ["embedded", "bare", "pairs", "strings"])
def test_every_command_takes_the_least_and_refuses_less(kind: str, tmp_path: Path) -> None:
    model = str(model_of(kind, tmp_path))
    planned = json.loads(coli("plan", model, "--ram", "1MB", "--json", *RATES).stdout)
    least = math.ceil(planned["least_bytes"] / MB)
    prompt = ("--ids", "5 6 7") if kind == "bare" else ("A",)
    facts = tmp_path / "facts.json"
    run = ("run", "-q", "-m", model, "--usage", "off", "--max-tokens", "8", "--ignore-eos")
    done = coli(*run, "--ram", f"{least}MB", "--stats-json", str(facts), *prompt)
    assert (done.returncode, done.stderr) == (0, "")
    measured = json.loads(facts.read_text())
    assert measured["plan"]["peak_bytes"] <= least * MB
    assert measured["stats"]["peak_rss_bytes"] <= least * MB
    assert measured["stats"]["guard_shrinks"] == 0
    doctor = coli("doctor", model, "--ram", f"{least}MB", "--json")
    assert plan_finding(doctor.stdout) in ("pass", "warn")
    less = f"{least * 96 // 100}MB"
    for command in (run + prompt, ("serve", "-m", model, "--port", "0"), ("tune", model)):
        refused = coli(*command, "--ram", less)
        assert refused.returncode != 0
        said = re.search(r"the least that works is (\d+) MB", refused.stderr)
        assert said is not None, refused.stderr
        # To a few MB: some of these processes import more than others.
        assert 0 <= int(said[1]) - least <= 8
    assert plan_finding(coli("doctor", model, "--ram", less, "--json").stdout) == "fail"


def plan_finding(report: str) -> str:
    findings = json.loads(report)["findings"]
    return next(str(f["status"]) for f in findings if f["check"] == "memory.plan")


def test_token_ids_need_no_tokenizer(tmp_path: Path) -> None:
    model = str(model_of("pairs", tmp_path))
    run = ("run", "-m", model, "--usage", "off", "--max-tokens", "2", "--ids", "5 6 7")
    facts = tmp_path / "facts.json"
    assert coli(*run, "--stats-json", str(facts)).returncode == 0
    without = json.loads(facts.read_text())["plan"]["peak_bytes"]
    assert coli(*run, "--stats-json", str(facts), "--stop", "x").returncode == 0
    assert json.loads(facts.read_text())["plan"]["peak_bytes"] > without + 15 * MB

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from colibri import LLM, SamplingParams
from colibri.llm import embedded_model


@pytest.fixture(scope="module")
def used_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    model = tmp_path_factory.mktemp("used") / "demo"
    shutil.copytree(embedded_model(), model)
    with LLM(model, usage="auto") as llm:
        llm.generate("Once upon a time", SamplingParams(max_tokens=20, seed=1, ignore_eos=True))
    return model


@pytest.fixture
def used(used_once: Path, tmp_path: Path) -> Path:
    """A copy of the embedded model that has answered once."""
    return shutil.copytree(used_once, tmp_path / "demo")


def test_show(coli, used):
    outcome = coli("usage", "show", str(used))
    assert (outcome.code, outcome.err) == (0, "")
    lines = outcome.out.splitlines()
    assert lines[0] == f"usage      {used}/.coli_usage"
    assert lines[1].startswith("model      demo (")
    tokens = int(lines[2].split()[1])
    assert tokens >= 20
    assert f"{tokens} tokens, {tokens * 16:,} selections; each counts half after 50,000" in lines[2]
    assert "not enough to pin by (from 4,096 selections on)" in lines[3]
    shares = [float(part.split(": ")[1].removesuffix(" %")) for part in lines[4].split(", ")]
    assert 10 < shares[0] < shares[1] < shares[2] < 100
    assert [line.split()[0] for line in lines[7:]] == ["1", "2", "3", "4"]
    assert lines[7].split()[1] == str(tokens * 4)


def test_export(coli, used, tmp_path):
    as_json = coli("usage", "export", "--model", str(used))
    facts = json.loads(as_json.out)
    assert facts["version"] == 1
    assert facts["model"] == "demo"
    assert list(facts["selections"]) == list(facts["heat"]) == ["1", "2", "3", "4"]
    heat = np.array(list(facts["heat"].values()))
    assert heat.shape == (4, 32)
    output = tmp_path / "usage.csv"
    assert coli("usage", "export", str(used), "--format", "csv", "-o", str(output)).out == ""
    head, *lines = output.read_text().splitlines()
    assert head == "layer,expert,heat,share"
    values = np.array([[float(cell) for cell in line.split(",")] for line in lines])
    assert np.allclose(values[:, 2].reshape(4, 32), heat, atol=1e-3)
    assert values[:32, 3].sum() == pytest.approx(1, abs=1e-4)


def test_reset_keeps_a_backup(coli, used):
    before = (used / ".coli_usage").read_bytes()
    outcome = coli("usage", "reset", str(used))
    kept = Path(outcome.out.removeprefix("kept as ").strip())
    assert kept.read_bytes() == before
    assert "nothing yet" in coli("usage", "show", str(used)).out
    assert "nothing to reset" in coli("usage", "reset", str(used)).out


def test_a_damaged_line_is_said(coli, used):
    file = used / ".coli_usage"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([lines[0], lines[1][:-5] + b"0000\n", *lines[2:]]))
    outcome = coli("usage", "show", str(used))
    assert outcome.code == 0
    assert outcome.err.startswith(f"coli: warning: {file}: line 2 is damaged")


def test_refusals(coli, used, tmp_path):
    off = coli("usage", "show", str(used), "--usage", "off")
    assert off.code == 2
    assert "usage is off" in off.err
    assert coli("usage", "show", str(tmp_path / "none")).code == 4
    assert coli("usage", "show", str(used), "--usage", "").code == 2


def test_the_embedded_models_usage_is_the_users(coli, tmp_path):
    outcome = coli("usage", "show")
    assert outcome.out.startswith(f"usage      {tmp_path}/state/colibri/usage/")
    assert "nothing yet" in outcome.out


def test_a_conversion_leaves_usage_where_it_is(coli, used, tmp_path, model_of):
    source = tmp_path / "source"
    shutil.copytree(model_of("olmoe", "source"), source)
    shutil.copy(used / ".coli_usage", source)
    assert coli("convert", str(source), str(tmp_path / "out"), "-q").code == 0
    assert not list((tmp_path / "out").glob(".coli_usage*"))

"""`coli mirror` in a process: what it prints, and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from colibri import LLM, SamplingParams
from colibri.cli import app


@pytest.fixture
def coli(capsys: pytest.CaptureFixture[str]) -> Any:
    def call(*arguments: object) -> tuple[int, str, str]:
        code = app.run(["mirror", *map(str, arguments)])
        out = capsys.readouterr()
        return code, out.out, out.err

    return call


def test_plan_stage_verify(coli: Any, model_of: Any, tmp_path: Path) -> None:
    model, target = model_of("olmoe", "int4"), tmp_path / "new"
    heat = tmp_path / "heat.json"
    heat.write_text(json.dumps({"heat": {"1": [1, 0, 0, 9, 0, 0, 0, 0]}}))
    wishes = (target, "--model", model, "--heat", heat, "--budget", "60KB", "--reserve", "0")
    code, out, err = coli("plan", *wishes)
    assert code == 0
    assert "100.0 % of what was asked for" in out
    assert "same drive" in err
    assert not target.exists()
    code, planned, _ = coli("plan", *wishes, "--json")
    code, staged, err = coli("stage", *wishes, "--json")
    assert code == 0
    assert json.loads(staged) == json.loads(planned)
    assert f"--mirror {target}" in err
    assert coli("verify", target)[:2] == (
        0,
        f"{target}: 1 file, {json.loads(staged)['new_bytes'] / 1e3:.0f} kB, held against its "
        "receipt: ready\n",
    )
    (target / json.loads(staged)["files"][0]["name"]).unlink()
    code, out, _ = coli("verify", target, "--model", model)
    assert code == 4
    assert "(missing)" in out
    assert "1 failure" in out
    code, out, _ = coli("verify", target, "--model", model, "--json")
    facts = json.loads(out)
    assert (code, facts["ready"], facts["failures"][0]["kind"]) == (4, False, "missing")
    assert "same drive" in facts["warnings"][0]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "empty"),
        ("{}", 'no "heat"'),
        ('{"heat": {"99": [1]}}', "layer '99': the model has no experts"),
        ('{"heat": {"0x": [1]}}', "no experts there"),
        ('{"heat": {"1": [1]}}', "a list of 8 numbers"),
        ('{"heat": {"1": [1, 2, 3, 4, 5, 6, 7, -8]}}', "'-8' is no count"),
        ('{"heat": {"1": [1, 2, 3, 4, 5, 6, 7, NaN]}}', "'nan' is no count"),
        ('{"heat": {"1": [1, 2, 3, 4, 5, 6, 7, true]}}', "'True' is no count"),
    ],
)
def test_counts_that_do_not_fit(
    coli: Any, model_of: Any, tmp_path: Path, text: str, says: str
) -> None:
    heat = tmp_path / "heat.json"
    heat.write_text(text)
    model = model_of("olmoe", "int4")
    code, _, err = coli("plan", tmp_path / "m", "--model", model, "--heat", heat)
    assert code in (2, 4)
    assert f"{heat}: " in err
    assert says in err


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("--budget", "5"), 2, "has no unit"),
        (("--budget", "1KB"), 5, "no more records fit"),
        (("--reserve", "200%"), 2, "more than the whole"),
        (("--unit", "films"), 2, "films"),
        (("--model", "/nowhere"), 4, "no such directory"),
    ],
)
def test_refusals(
    coli: Any, tmp_path: Path, arguments: tuple[str, ...], code: int, says: str
) -> None:
    for command in ("plan", "stage"):
        found, _, err = coli(command, tmp_path / "mirror", *arguments)
        assert found == code
        assert says in err
        assert "Traceback" not in err


def test_verify_refusals(coli: Any, tmp_path: Path) -> None:
    assert coli("verify", tmp_path / "nowhere")[0] == 4
    code, _, err = coli("verify", tmp_path)
    assert code == 2
    assert "--model" in err


def test_what_is_hot_is_what_is_remembered(
    coli: Any, model_of: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, usage = model_of("olmoe", "int4"), tmp_path / "usage"
    wishes = (tmp_path / "new", "--model", model, "--budget", "60KB", "--reserve", "0")
    assert coli("plan", *wishes)[0] == 2  # nothing is known
    params = SamplingParams(temperature=0, max_tokens=50, ignore_eos=True)
    with LLM(model, usage=str(usage)) as llm:
        for first in range(5, 13):
            llm.generate([first, 6, 7], params)
    monkeypatch.setenv("COLI_USAGE", str(usage))
    code, out, _ = coli("plan", *wishes)
    assert code == 0
    assert "of what was asked for so far" in out


def test_a_refused_stage_leaves_no_directory(coli: Any, model_of: Any, tmp_path: Path) -> None:
    model, target = model_of("olmoe", "int4"), tmp_path / "drive" / "new"
    code, _, err = coli("stage", target, "--model", model, "--budget", "1KB", "--reserve", "0")
    assert code in (2, 5), err
    assert not target.parent.exists()

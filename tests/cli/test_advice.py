"""A command that a message advises is about the model that was named, not the embedded one."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

from colibri.llm import embedded_model
from colibri.words import coli as advised
from golden import tiny

NAME = "my model"


@pytest.fixture
def named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model without a tokenizer, beside which the user stands."""
    monkeypatch.chdir(tmp_path)
    return shutil.copytree(tiny("olmoe"), tmp_path / NAME)


def test_a_command_for_the_embedded_model_names_none() -> None:
    assert advised("run", None) == "coli run"
    assert advised("usage reset", "conv") == "coli usage reset --model conv"
    assert advised("run", "it's") == """coli run --model 'it'"'"'s'"""


@pytest.mark.parametrize(
    "line",
    [
        ["run", "--model", NAME, "text"],
        ["run", "--model", NAME, "--chat", "text"],
        ["chat", "--model", NAME],
        ["score", "--model", NAME, "yes", "no", "--question", "Is it so?"],
    ],
)
def test_without_a_tokenizer_the_advice_is_run_as_it_stands(
    coli: Any, named: Path, line: list[str]
) -> None:
    outcome = coli(*line)
    assert outcome.code == 4
    assert "neither reads nor writes text" in outcome.err
    command = outcome.err.strip().splitlines()[-1].partition("token ids: coli ")[2]
    assert command == "run --model 'my model' --ids \"1 2 3\""
    told = coli(*shlex.split(command), "-q", "--max-tokens", "2")
    assert (told.code, len(told.out.split())) == (0, 2)


def test_info_and_doctor_name_the_model(coli: Any, named: Path) -> None:
    shutil.copy(embedded_model() / "tokenizer_config.json", named)
    assert "token ids only (`coli run --model 'my model' --ids`)" in coli("info", NAME).out
    said = coli("doctor", NAME).out
    assert "only `coli run --model 'my model' --ids` works" in said


def test_without_a_template_the_model_is_named_too(coli: Any, named: Path) -> None:
    shutil.copy(embedded_model() / "tokenizer.json", named)
    outcome = coli("chat", "--model", NAME)
    assert outcome.code == 4
    assert "`coli run --model 'my model'` takes a prompt as it is" in outcome.err
    assert "no chat template (`coli run --model 'my model'` only)" in coli("info", NAME).out
    assert "use `coli run --model 'my model'`; else" in coli("doctor", NAME).out


def test_a_model_without_a_profile_is_named(coli: Any, named: Path) -> None:
    assert "`coli tune --model 'my model'` makes one" in coli("tune", "--show", NAME).out

"""What `from colibri import ...` offers: all importable, lazily, and seen by type checkers."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import colibri
from colibri import errors

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("name", colibri.__all__)
def test_every_name_can_be_imported(name: str) -> None:
    assert getattr(colibri, name) is not None
    assert name in dir(colibri)


def test_every_error_is_exported() -> None:
    kinds = {name for name, kind in vars(errors).items() if inspect.isclass(kind)}
    assert kinds <= set(colibri.__all__)


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'SamplingParam'"):
        colibri.SamplingParam  # noqa: B018


def test_errors_come_without_numpy() -> None:
    code = "from colibri import ColibriError, CapacityError"
    check = f"{code}; import sys; sys.exit('numpy' in sys.modules or 'colibri.llm' in sys.modules)"
    subprocess.run([sys.executable, "-c", check], check=True)


SCRIPT = """
from typing import assert_type
from colibri import LLM, ChatOptions, Chunk, ColibriError, Completion, Message, SamplingParams

def answer(llm: LLM, messages: list[Message], **options: object) -> Completion:
    try:
        return llm.chat(messages, SamplingParams(max_tokens=8), thinking=False)
    except ColibriError as error:
        raise SystemExit(str(error))

def pieces(llm: LLM) -> list[Chunk]:
    assert_type(llm.generate(["a", "b"]), list[Completion])
    assert_type(llm.score_choices("a", ["b", "c"]).best.p, float)
    return list(llm.stream("Hello"))
"""


def _mypy(tmp_path: Path, script: str) -> subprocess.CompletedProcess[str]:
    file = tmp_path / "user.py"
    file.write_text(script)
    command = [sys.executable, "-m", "mypy", "--config-file=", "--strict", str(file)]
    return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)


def test_a_users_script_is_type_checked(tmp_path: Path) -> None:
    checked = _mypy(tmp_path, SCRIPT)
    assert checked.returncode == 0, checked.stdout
    wrong = _mypy(tmp_path, "from colibri import SamplingParam, LLM\nLLM(ramm='2GB')\n")
    assert '"colibri" has no attribute "SamplingParam"' in wrong.stdout
    assert 'Unexpected keyword argument "ramm"' in wrong.stdout

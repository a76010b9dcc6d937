"""A model of many files under a small limit of open files: it runs, or says why before it loads."""

import subprocess
import sys
from pathlib import Path

import pytest

import golden
from scripts import fp8

RUN = """
import resource, sys
from colibri import LLM, SamplingParams
from colibri.errors import CapacityError
soft, hard = map(int, sys.argv[2:])
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
try:
    with LLM(sys.argv[1], ram="1GB", context=64, cache_experts=4) as llm:
        params = SamplingParams(temperature=0, max_tokens=8, ignore_eos=True)
        print(llm.generate([5, 6, 7], params).token_ids)
except CapacityError as error:
    print("refused:", error)
"""


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("models") / "many"
    return fp8.write(golden.tiny("qwen3_moe"), target, shards=60)


def run(model: Path, soft: int, hard: int) -> str:
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(model), str(soft), str(hard)],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def test_a_small_soft_limit_is_raised(many: Path) -> None:
    assert run(many, 40, 1024) == run(many, 1024, 1024)


def test_a_hard_limit_that_is_just_enough(many: Path) -> None:
    assert run(many, 40, 60 + 64) == run(many, 1024, 1024)


def test_a_hard_limit_that_is_too_small_is_told_before_anything_is_loaded(many: Path) -> None:
    said = run(many, 40, 60)
    assert said.startswith(f"refused: {many}: ")
    assert "at most 60 may be: raise the hard limit" in said

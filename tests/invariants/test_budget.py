"""The budget is true: a process given the least memory that works stays within it to the end of the
longest run, and the plan is near what happens."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import golden
from colibri import LLM
from colibri.errors import CapacityError

pytestmark = pytest.mark.alone

CONTEXT = 1000
NEARNESS_BYTES = 56_000_000  # what a server takes more than this run (docs/plan.md)

RUN = """
import json, sys
from colibri import LLM, SamplingParams
path, ram, context = sys.argv[1] or None, sys.argv[2], int(sys.argv[3])
with LLM(path, ram=ram, context=context) as llm:
    prompt = [(7 * i) % 100 for i in range(context * 3 // 4)]
    rest = SamplingParams(max_tokens=context, ignore_eos=True, seed=1)
    answer = llm.generate(prompt, rest)
    print(json.dumps({
        "tokens": len(prompt) + len(answer.token_ids),
        "peak": llm.stats().peak_rss_bytes,
        "plan": llm.plan.peak_bytes,
        "budget": llm.plan.budget_bytes,
    }))
"""


@pytest.mark.parametrize("family", ["embedded", *golden.FAMILIES])
def test_the_least_that_works_is_kept(family: str, tmp_path: Path) -> None:
    """B022, B036."""
    path = "" if family == "embedded" else str(wider(golden.tiny(family), tmp_path))
    # Asked in a process like the one that runs: what Python itself takes is part of the plan.
    refused = python("-c", RUN, path, "10MB", str(CONTEXT))
    least = re.search(r"CapacityError: .* the least that works is (\d+) MB", refused.stderr)
    assert least
    done = python("-c", RUN, path, f"{int(least[1]) + 2}MB", str(CONTEXT))
    assert done.returncode == 0, done.stderr
    run = json.loads(done.stdout)
    assert run["tokens"] == CONTEXT
    assert run["peak"] <= run["plan"] <= run["budget"]
    assert run["plan"] - run["peak"] < NEARNESS_BYTES


def test_nothing_is_loaded_before_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(*_: Any) -> None:
        raise AssertionError("weights are read")

    monkeypatch.setattr("colibri.runtime.runtime.TrunkLoader", load)
    monkeypatch.setattr("colibri.runtime.runtime.StreamedExperts", load)
    with pytest.raises(CapacityError, match="the least that works"):
        LLM(ram="10MB")


def wider(source: Path, target: Path) -> Path:
    """The checkpoint with room for CONTEXT positions."""
    config = json.loads((source / "config.json").read_text())
    config.get("text_config", config)["max_position_embeddings"] = CONTEXT
    (target / "config.json").write_text(json.dumps(config))
    (target / "model.safetensors").symlink_to(source / "model.safetensors")
    return target


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True)

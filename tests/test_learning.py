"""Usage and pins of a whole model: saved when a turn ends, heeded, and never in an answer's way."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from colibri import LLM, SamplingParams
from colibri.errors import ConfigError
from colibri.experts.learning import BUSY_SECONDS, Learning
from colibri.experts.usage.file import parse
from colibri.experts.usage.pintrial import PinTrial
from colibri.llm import embedded_model
from promises import assert_same_bits

PARAMS = SamplingParams(max_tokens=20, seed=5, ignore_eos=True)
PROMPT = "Once upon a time"
LONG = [(37 * t) % 4000 for t in range(300)]  # enough selections for auto


def turns(llm: LLM) -> None:
    """Learns much, ends a turn, and is between two when this returns."""
    llm.forward(LONG)
    llm.generate(PROMPT, SamplingParams(max_tokens=2))
    llm.forward([1])


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return shutil.copytree(embedded_model(), tmp_path / "demo")


def saved_tokens(llm: LLM, path: Path) -> int:
    log = llm._runtime.thread.engine._turn_ended.__self__._log  # type: ignore[attr-defined]
    return parse((path / ".coli_usage").read_bytes(), log.subject).counts.tokens


def test_usage_is_saved_when_a_turn_ends_and_at_the_close(model: Path) -> None:
    with LLM(model, usage="auto") as llm:
        llm.generate(PROMPT, PARAMS)
        llm.forward([1])  # the thread is between two turns
        first = saved_tokens(llm, model)
        assert first >= 20
        llm.forward([1, 2, 3])
        assert saved_tokens(llm, model) == first
    with LLM(model, usage="auto") as llm:
        assert saved_tokens(llm, model) == first + 4


def test_usage_is_saved_by_a_program_that_ends_without_closing(model: Path) -> None:
    code = (
        f"from colibri import LLM; llm = LLM({str(model)!r}, usage='auto'); llm.forward([1, 2, 3])"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")
    with LLM(model, usage="auto") as llm:
        assert saved_tokens(llm, model) == 3


def test_off_leaves_nothing_and_bench_is_no_use(model: Path) -> None:
    before = sorted(os.listdir(model))
    with LLM(model, usage="off") as llm:
        llm.generate(PROMPT, PARAMS)
    assert sorted(os.listdir(model)) == before


def test_a_file_of_the_users_choice(model: Path, tmp_path: Path) -> None:
    file = tmp_path / "elsewhere" / "usage"
    with pytest.raises(ConfigError, match=r"--usage: cannot write .*there is no directory"):
        LLM(model, usage=str(file))
    file.parent.mkdir()
    with LLM(model, usage=str(file)) as llm:
        llm.generate(PROMPT, PARAMS)
    assert file.stat().st_size > 1000
    assert not (model / ".coli_usage").exists()
    file.write_text("something else\n")
    with pytest.raises(ConfigError, match="--usage"):
        LLM(model, usage=str(file))
    assert file.read_text() == "something else\n"


def test_an_answer_does_not_mind_that_usage_cannot_be_saved(
    model: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (model / ".coli_usage.lock").mkdir()
    with LLM(model, usage="auto") as llm:
        answers = [llm.generate(PROMPT, PARAMS).token_ids for _ in range(2)]
    assert answers[0] == answers[1]
    assert len([r for r in caplog.records if "not saved" in r.getMessage()]) == 1


def held(llm: LLM) -> list[int]:
    return [sum(stage.cache.held(e) for e in range(32)) for stage in llm.experts._stages.values()]


def test_auto_pins_once_enough_is_known_and_the_pins_are_used(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PinTrial, "judge", lambda self, pins: True)
    with LLM(model, usage="auto", cache_experts=16) as llm:
        llm.generate(PROMPT, PARAMS)
        assert sum(held(llm)) == 0
        turns(llm)
        assert held(llm) == [8] * 4
    with LLM(model, usage="auto", cache_experts=16) as llm:
        assert held(llm) == [8] * 4
        llm.forward(LONG)
        for stage in llm.experts._stages.values():
            pins = [e for e in range(32) if stage.cache.held(e)]
            assert stage.cache.resident[pins].all()  # filled when first asked for
    with LLM(model, usage="auto", cache_experts=16, pin="0") as llm:
        assert sum(held(llm)) == 0
    with LLM(model, usage="auto") as llm:  # all fits
        assert sum(held(llm)) == 0
        assert llm.plan.pin_bytes == 0


def test_all_is_clamped_to_the_budget_and_says_so(
    model: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """B024."""
    with LLM(model, usage="auto", cache_experts=10, pin="all") as llm:
        (record,) = caplog.records
        assert "--pin all: that is 6.8 MB of experts, and 1.1 MB are pinned" in record.getMessage()
        slot = llm.plan.arena_bytes // 40
        assert llm.plan.pin_bytes == 4 * 5 * slot
        assert any("pinned" in line for line in llm.plan.lines())
        arena = llm.experts.nbytes
        turns(llm)
        assert held(llm) == [5] * 4
        assert llm.experts.nbytes == arena == llm.plan.arena_bytes


def test_a_shrinking_cache_lets_pins_go(model: Path) -> None:
    with LLM(model, usage="auto", cache_experts=16, pin="all") as llm:
        expected = llm.forward(LONG[:60])
        turns(llm)
        llm._runtime.thread.call(lambda: llm.experts.resize(3), 1)
        assert_same_bits(llm.forward(LONG[:60]), expected)
        turns(llm)
        assert held(llm) == [1] * 4


class Counter:
    on_trial = False

    def __init__(self) -> None:
        self.saved = self.held = 0

    def save(self) -> None:
        self.saved += 1

    def counts(self) -> None:
        pass

    def cached_layers(self) -> None:
        pass

    def revise(self, *_: Any) -> dict[int, list[int]]:
        return {}

    def hold(self, _: Any) -> None:
        self.held += 1


def test_while_others_are_answered_saving_waits() -> None:
    counter, now = Counter(), [0.0]
    learning = Learning(counter, counter, counter, clock=lambda: now[0])  # type: ignore[arg-type]
    assert (counter.saved, counter.held) == (0, 1)
    learning.turn_ended(busy=True)
    assert (counter.saved, counter.held) == (0, 1)
    learning.turn_ended(busy=False)
    assert (counter.saved, counter.held) == (1, 2)
    now[0] = BUSY_SECONDS
    learning.turn_ended(busy=True)
    assert (counter.saved, counter.held) == (2, 3)

"""Where the time of turns went: it adds up to the wall time, whatever was listened to."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Iterator
from typing import Any, cast

import httpx2
import pytest
from server_kit import Running, serving

from colibri import LLM
from colibri.config import EngineConfig
from colibri.lab.counters import Counters
from colibri.server.watch.profile import SampledClock
from colibri.server.watch.turnlog import KEPT, TURN_PHASES, Part, TurnLog


@pytest.fixture(scope="module")
def streamed() -> Iterator[Running]:
    clock = SampledClock()
    config = EngineConfig(ram="2GB", context=512, cache_experts=12, usage="off", pin="0")
    with LLM.from_config(config, clock=clock) as llm, serving(llm) as running:
        running.service.clock = clock
        clock.watch(llm.experts)
        for text in ("A cat and a dog", "SELECT name FROM birds"):
            ask(running, text, 40)
        yield running


def ask(running: Running, text: str, tokens: int) -> None:
    body = {"prompt": text, "max_tokens": tokens, "ignore_eos": True}
    httpx2.post(f"{running.url}/v1/completions", json=body, timeout=60).raise_for_status()


def profile(running: Running, **query: Any) -> Any:
    return httpx2.get(f"{running.url}/v1/colibri/profile", params=query, timeout=30)


def test_a_question_and_its_answer_are_a_turn(streamed: Running) -> None:
    turns = profile(streamed).json()["turns"]
    assert [t["turn"] for t in turns[:2]] == [1, 2]
    for turn in turns[:2]:
        assert turn["prefill"]["steps"] == 1
        assert turn["decode"]["steps"] == turn["decode"]["rows"] == 39
        assert turn["decode"]["listened"] in (2, 3, 4)


def test_a_rest_ends_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr("colibri.server.watch.turnlog.time.perf_counter", lambda: clock[0])
    log = TurnLog()
    numbers = []
    for prefill, wait in [(True, 0), (True, 0.5), (False, 0.5), (False, 2), (True, 2), (True, 0.5)]:
        clock[0] += wait
        numbers.append(log.begin(prefill, 1)[0])
        clock[0] += 3
        log.end(None)
    assert numbers == [1, 1, 1, 2, 3, 3]


def test_phases_add_up_to_the_wall_time(streamed: Running) -> None:
    told = profile(streamed).json()
    assert told["phases"] == list(TURN_PHASES)
    for turn in told["turns"]:
        assert set(turn["phases"]) == set(TURN_PHASES)
        assert min(turn["phases"].values()) >= 0
        assert sum(turn["phases"].values()) == pytest.approx(turn["seconds"], rel=1e-6)
        for kind in ("prefill", "decode"):
            part = turn[kind]
            assert sum(part["phases"].values()) == pytest.approx(part["seconds"], rel=1e-6)
            assert part["phases"]["expert_wait"] == pytest.approx(part["wait_seconds"], rel=1e-6)


def test_counters_of_turns_are_those_of_the_executor(streamed: Running) -> None:
    stats = streamed.service.llm.experts.stats()
    turns = [
        turn[kind] for turn in profile(streamed).json()["turns"] for kind in ("prefill", "decode")
    ]
    assert len(turns) < 2 * KEPT
    assert sum(t["hits"] for t in turns) == stats.hits
    assert sum(t["misses"] for t in turns) == stats.misses > 0
    assert sum(t["bytes_read"] for t in turns) == stats.bytes_read > 0
    assert sum(t["read_seconds"] for t in turns) == pytest.approx(stats.read_seconds)
    assert sum(t["wait_seconds"] for t in turns) == pytest.approx(stats.wait_seconds)


def test_layers_of_a_turn_add_up_to_it(streamed: Running) -> None:
    turn = profile(streamed).json()["turns"][0]
    layers = profile(streamed, turn=turn["turn"]).json()["layers"]
    assert [n["layer"] for n in layers] == [-1, 0, 1, 2, 3, 4]
    for kind in ("prefill", "decode"):
        for name, seconds in turn[kind]["phases"].items():
            found = sum(n[kind]["phases"].get(name, 0.0) for n in layers if kind in n)
            assert found == pytest.approx(seconds, rel=1e-6, abs=1e-9)
        assert sum(n[kind]["hits"] for n in layers if kind in n) == turn[kind]["hits"]
        assert sum(n[kind]["misses"] for n in layers if kind in n) == turn[kind]["misses"]


def test_the_last_step_is_there_phase_by_phase(streamed: Running) -> None:
    step = profile(streamed).json()["step"]
    assert sum(span[3] for span in step["spans"]) == pytest.approx(step["seconds"], rel=1e-6)
    assert {span[1] for span in step["spans"]} == {-1, 0, 1, 2, 3, 4}
    begins = [span[2] for span in step["spans"]]
    assert begins == sorted(begins)


@pytest.mark.parametrize(
    ("turn", "status"),
    [("0", 404), ("999999", 404), ("x", 400), ("-1", 400), ("", 400), ("²", 400)],
)
def test_other_turns_are_refused(streamed: Running, turn: str, status: int) -> None:
    answer = profile(streamed, turn=turn)
    assert answer.status_code == status
    assert "turn" in answer.json()["error"]["message"]


def test_old_turns_are_forgotten() -> None:
    log = TurnLog()
    for _ in range(KEPT + 3):
        assert log.begin(prefill=True, rows=5)[1]
        log.end(None)
        assert log.begin(prefill=False, rows=1)[1]
        log.end(None)
        assert not log.begin(prefill=False, rows=1)[1]
        log.end(None)
    told = log.told()
    assert [turn["turn"] for turn in told] == list(range(4, KEPT + 4))
    assert all(sum(t["phases"].values()) == pytest.approx(t["seconds"]) for t in told)
    assert told[0]["decode"]["rows"] == 2
    assert log.layers(1) is None


def test_chunks_of_a_prompt_are_one_turn() -> None:
    log = TurnLog()
    numbers = []
    for prefill in (True, True, False, False, True, False):
        numbers.append(log.begin(prefill, 1)[0])
        log.end(None)
    assert numbers == [1, 1, 1, 1, 2, 2]


def test_a_turn_is_told_while_its_layers_come_in() -> None:
    """The engine's thread may add a layer to a turn in the middle of telling it."""
    part = Part(steps=1, seconds=1.0)

    class Interrupted(UserDict[str, float]):
        def __iter__(self) -> Iterator[str]:
            part.layers[1] = {"route": 1.0}
            return super().__iter__()

    part.layers[0] = cast(Any, Interrupted({"expert_wait": 1.0, "route": 1.0}))
    told = part.by_layer(Counters(wait_seconds=0.5))
    assert sum(sum(phases.values()) for phases in told.values()) == pytest.approx(1.0)
    assert 1 in part.layers

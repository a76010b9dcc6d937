"""The stream behind the Brain page: which experts fire, where they lie, how hot they are."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import httpx2
import numpy as np
import pytest
from server_kit import Running, serving

from colibri import LLM
from colibri.config import EngineConfig
from colibri.server.colibri.routing import HEAT_STEPS, heat_bytes
from colibri.server.watch.firing import KEPT_STEPS, ExpertMap, Fired, Firings
from colibri.server.watch.profile import SampledClock

BODY = {"prompt": "A cat and a dog", "max_tokens": 12, "ignore_eos": True, "temperature": 0}


@pytest.fixture(scope="module")
def watching() -> Iterator[Running]:
    """A server whose engine is listened to, as `coli serve` has it."""
    clock = SampledClock()
    config = EngineConfig(ram="2GB", context=512, cache_experts=12, usage="off")
    with LLM.from_config(config, clock=clock) as llm, serving(llm) as running:
        running.service.clock = clock
        clock.watch(llm.experts)
        yield running


class Watcher:
    """Events of the stream, as they come."""

    def __init__(self, url: str, last: str = "") -> None:
        headers = {"last-event-id": last.encode()} if last else {}
        self._stream = httpx2.stream(
            "GET", f"{url}/v1/colibri/routing", timeout=20, headers=headers
        )
        self.response = self._stream.__enter__()
        self._lines = self.response.iter_lines()

    def next(self) -> tuple[str, str, dict[str, Any]]:
        """(id, event, data)"""
        found = {"id": "", "event": ""}
        for line in self._lines:
            name, _, value = line.partition(": ")
            if name == "data":
                return found["id"], found["event"], json.loads(value)
            if name:
                found[name] = value
        raise AssertionError("the stream ended")

    def steps(self, count: int) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        while len(found) < count:
            self.last, _, data = self.next()
            found += data.get("steps", [])
        return found

    def close(self) -> None:
        self._stream.__exit__(None, None, None)


def ask(running: Running, **more: Any) -> None:
    httpx2.post(f"{running.url}/v1/completions", json=BODY | more, timeout=60).raise_for_status()


def bits(text: str, size: int) -> np.ndarray:
    raw = np.frombuffer(base64.b64decode(text), np.uint8)
    return np.unpackbits(raw, count=size, bitorder="little").astype(bool)


def test_first_event_says_all(watching: Running) -> None:
    ask(watching)
    llm = watching.service.llm
    watcher = Watcher(watching.url)
    number, name, data = watcher.next()
    watcher.close()
    assert name == "experts"
    assert number == f"{data['run']}-{data['step']}"
    assert [(n["layer"], n["experts"]) for n in data["layers"]] == [(n, 32) for n in (1, 2, 3, 4)]
    resident = bits(data["resident"], 128).reshape(4, 32)
    assert resident.sum() > 0
    for row, layer in zip(resident, (1, 2, 3, 4), strict=True):
        assert set(np.flatnonzero(row).tolist()) == llm.experts.resident(layer)
    counts, _ = llm.usage.peek()
    heat = np.concatenate([counts.heat[n] for n in (1, 2, 3, 4)])
    assert base64.b64decode(data["heat"]) == heat_bytes(heat)
    ago = np.frombuffer(base64.b64decode(data["ago"]), "<i4")
    assert ((ago == -1) == (heat == 0)).all()
    assert ago.max() < counts.tokens


def test_every_step_is_told_with_its_experts(watching: Running) -> None:
    llm = watching.service.llm
    heard: dict[int, list[set[int]]] = {n: [] for n in (1, 2, 3, 4)}
    watcher = Watcher(watching.url)
    watcher.next()
    listen = llm.experts.listen

    def beside(note: Any) -> None:
        def both(layer: int, ids: Any) -> None:
            heard[layer].append(set(ids.ravel().tolist()))
            note(layer, ids)

        listen(both if note else None)

    llm.experts.listen = beside  # type: ignore[method-assign]
    try:
        watching.service.firings._switch(False)
        ask(watching)
        steps = watcher.steps(12)
    finally:
        llm.experts.listen = listen  # type: ignore[method-assign]
        watching.service.firings._switch(False)
    watcher.close()
    assert len(steps) == 12  # one reads the prompt and chooses the first token
    assert [s["prefill"] for s in steps] == [True] + [False] * 11
    assert len({s["turn"] for s in steps}) == 1
    numbers = [s["step"] for s in steps]
    assert numbers == list(range(numbers[0], numbers[0] + 12))
    for i, step in enumerate(steps):
        fired = bits(step["fired"], 128).reshape(4, 32)
        for row, layer in zip(fired, (1, 2, 3, 4), strict=True):
            assert set(np.flatnonzero(row).tolist()) == heard[layer][i]
        assert step["seconds"] > 0
    assert all(
        bits(s["fired"], 128).reshape(4, 32).sum(axis=1).tolist() == [4] * 4 for s in steps[1:]
    )


def test_a_client_that_comes_again_misses_nothing(watching: Running) -> None:
    first = Watcher(watching.url)
    first.next()
    ask(watching)
    known = first.steps(12)
    first.close()
    ask(watching)  # while nobody is connected
    again = Watcher(watching.url, first.last)
    _, name, data = again.next()
    again.close()
    assert name == "experts"
    assert data["skipped"] == 0
    assert [s["step"] for s in data["steps"]] == [known[-1]["step"] + 1 + i for i in range(12)]


@pytest.mark.parametrize("last", ["", "x", "abc-5", "-", "-1", "\u0661-\u0661", "9" * 60])
def test_an_id_of_another_server_starts_anew(watching: Running, last: str) -> None:
    ask(watching, max_tokens=1)
    watcher = Watcher(watching.url, last)
    _, name, data = watcher.next()
    watcher.close()
    assert (name, data["steps"], data["skipped"]) == ("experts", [], 0)


def test_nothing_is_noted_while_nobody_watches(
    watching: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    watching.await_idle()
    until = time.monotonic() + 60  # who has left is noticed with the next keep-alive
    while watching.service.firings._watchers and time.monotonic() < until:
        time.sleep(0.02)
    monkeypatch.setattr("colibri.server.watch.firing.LINGER_SECONDS", -1.0)
    ask(watching)
    experts = watching.service.llm.experts
    assert experts._note is experts._own_note
    steps, missing, last = watching.service.firings.since(0, 10)
    assert (steps, missing) == ([], last)


def test_what_moves_is_told_and_what_stays_is_not(watching: Running) -> None:
    """12 of 32 experts fit: another text moves some."""
    watcher = Watcher(watching.url)
    _, _, first = watcher.next()
    ask(watching, prompt="SELECT name FROM birds WHERE wings > 2", max_tokens=40)
    moved, evicted = [], first["evictions"]
    seen = 0
    while seen < 40:
        _, _, data = watcher.next()
        seen += len(data.get("steps", []))
        if "resident" in data:
            moved.append(data["resident"])
        evicted = data["evictions"]
    watcher.close()
    assert moved
    assert moved[0] != first["resident"]
    assert all(one != other for one, other in pairwise(moved))
    assert evicted > first["evictions"]


def test_many_watchers(watching: Running) -> None:
    watchers = [Watcher(watching.url) for _ in range(8)]
    for watcher in watchers:
        watcher.next()
    thread = threading.Thread(target=ask, args=(watching,))
    thread.start()
    told = [[s["step"] for s in watcher.steps(12)] for watcher in watchers]
    thread.join()
    for watcher in watchers:
        watcher.close()
    assert all(one == told[0] for one in told)


def test_steps_that_are_not_kept_are_counted() -> None:
    class Experts:
        note: Any = None

        def listen(self, note: Any) -> None:
            self.note = note

    experts, firings = Experts(), Firings()
    firings.attach(experts)  # type: ignore[arg-type]
    with firings.watched():
        for i in range(KEPT_STEPS + 10):
            firings.begin(prefill=i == 0, rows=1, turn=1)
            experts.note(7, np.array([[i % 4]], np.int32))
            firings.end()
    steps, missing, last = firings.since(0, KEPT_STEPS)
    assert (len(steps), missing, last) == (KEPT_STEPS, 10, KEPT_STEPS + 10)
    steps, missing, last = firings.since(5, 3)
    assert [s.number for s in steps] == [last - 2, last - 1, last]
    assert missing == last - 5 - 3
    assert firings.since(last, 5) == ([], 0, last)


def test_bits_of_layers_that_are_no_multiple_of_eight() -> None:
    found = ExpertMap({5: 3, 2: 6})  # by layer, ascending: 6 of layer 2, then 3 of layer 5
    step = Fired(
        1,
        1,
        False,
        1,
        0.1,
        ((2, np.array([0, 5], "<i4").tobytes()), (5, np.array([2], "<i4").tobytes())),
    )
    (raw,) = found.fired([step])
    assert np.unpackbits(np.frombuffer(raw, np.uint8), count=9, bitorder="little").tolist() == [
        1, 0, 0, 0, 0, 1, 0, 0, 1,
    ]  # fmt: skip


def test_heat_of_a_byte() -> None:
    heat = np.array([0.0, 1.0, 3.0, 1e9])
    assert list(heat_bytes(heat)) == [0, HEAT_STEPS, 2 * HEAT_STEPS, 255]

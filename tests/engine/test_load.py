"""The engine when much is asked of it: turns, the line, cancels, deadlines, a model that hangs."""

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

import golden
from colibri import LLM
from colibri.engine.line import Line
from colibri.engine.pace import Pace
from colibri.engine.request import Failed, Finished, PrefillProgress, Request, Token
from colibri.engine.thread import EngineThread
from colibri.engine.watchdog import Watchdog
from colibri.errors import ColibriError, DeadlineError, QueueFullError, ReadError, StalledError
from colibri.sampling import SamplingParams
from engine_kit import answer_of, ask, engine_of, error_of, events_of, run

LONG = [(7 * t + 3) % 100 for t in range(60)]


@pytest.fixture(scope="module")
def llm() -> Iterator[LLM]:
    with LLM(golden.tiny("olmoe")) as llm:
        yield llm


class Hooked:
    """A model that calls `before_layer` of the test's own, too."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self.hook: Any = lambda layer, step: None
        self.steps = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def forward(self, step: Any) -> Any:
        self.steps += 1
        inner = step.before_layer

        def before(layer: int) -> None:
            self.hook(layer, step)
            inner(layer)

        step.before_layer = before
        return self._model.forward(step)


@pytest.fixture
def hooked(llm: LLM) -> Any:
    engine = engine_of(llm, prefix_cache=0)
    engine._steps._model = Hooked(llm._engine.model)  # type: ignore[assignment]
    return engine, engine._steps._model


def test_answers_go_on_while_a_prompt_is_read(llm: LLM) -> None:
    engine = engine_of(llm, prefix_cache=0)
    first = ask(engine, LONG[:3], max_tokens=30)
    engine.step()
    second = ask(engine, LONG)
    made = []
    while engine._running[-1].request is not second or engine._running[-1].in_prefill:
        engine.step()
        made.append(sum(isinstance(e, Token) for e in events_of(first)))
    assert len(made) == len(LONG) / 4  # beside a row of the answer's; and a token in each of them
    assert made[1:] == [1] * (len(made) - 1)


def test_prompts_take_turns_and_short_ones_go_together(llm: LLM) -> None:
    engine = engine_of(llm, prefix_cache=0, prefill_chunk=8)
    long = [ask(engine, LONG[i:], max_tokens=1) for i in range(2)]
    short = [ask(engine, [i, 5], max_tokens=1) for i in range(4)]
    engine.step()
    engine.step()
    assert [s.prefilled for s in engine._running[:2]] == [8, 8]
    engine.step()
    assert all(answer_of(request) for request in short)
    run(engine)
    assert all(answer_of(request) for request in long)


def test_one_that_leaves_does_not_cost_the_others_their_step(hooked: Any) -> None:
    """In the last layer its row is not worth a new step; it gets no token."""
    engine, model = hooked
    stay, leave = ask(engine, LONG[:9]), ask(engine, LONG[2:9])
    while any(s.in_prefill for s in engine._running) or not engine._running:
        engine.step()
    events_of(leave), events_of(stay)
    before = model.steps
    model.hook = lambda layer, step: leave.cancel() if layer == len(model.layers) - 1 else None
    engine.step()
    assert model.steps == before + 1
    assert events_of(leave) == [Finished("cancelled")]
    assert len(events_of(stay)) == 1
    engine.step()
    assert [s.request for s in engine._running] == [stay]


def test_a_prompt_that_leaves_is_taken_out_of_its_step(hooked: Any) -> None:
    engine, model = hooked
    stay, want = ask(engine, LONG[:4]), ask(engine, LONG[:4])
    while any(s.in_prefill for s in engine._running) or not engine._running:
        engine.step()
    leave = ask(engine, LONG[5:50])
    seen = []

    def hook(layer: int, step: Any) -> None:
        seen.append((layer, len(step.token_ids)))
        if layer == 1:
            leave.cancel()

    model.hook = hook
    engine.step()
    assert seen[:3] == [(0, 5), (1, 5), (0, 2)]  # 2 answers and a chunk of 3, then without it
    model.hook = lambda layer, step: None
    run(engine)
    assert answer_of(stay) == answer_of(want)
    assert events_of(leave)[-1] == Finished("cancelled")


def test_a_read_that_fails_in_a_mixed_step_ends_only_its_own(hooked: Any) -> None:
    engine, model = hooked
    stay, want = ask(engine, LONG[:4]), ask(engine, LONG[:4])
    while any(s.in_prefill for s in engine._running) or not engine._running:
        engine.step()
    bad = ask(engine, LONG[5:50])

    def hook(layer: int, step: Any) -> None:
        if layer == 1 and any(rows.stop - rows.start > 1 for rows in step.sequences):
            raise ReadError("no such sector")

    model.hook = hook
    run(engine)
    assert str(error_of(bad)) == "no such sector"
    assert answer_of(stay) == answer_of(want)
    assert engine.stats.ended == {"stop": 0, "length": 2, "cancelled": 0, "failed": 1}


def test_who_leaves_the_line_is_never_started(hooked: Any) -> None:
    engine, _ = hooked
    engine.context = 60
    first = ask(engine, LONG[:40], max_tokens=20)
    engine.step()
    waiting = [ask(engine, LONG[10:30]) for _ in range(3)]
    for request in waiting[:2]:
        request.cancel()
    engine.step()
    assert [events_of(request) for request in waiting[:2]] == [[Finished("cancelled")]] * 2
    first.cancel()
    run(engine)
    assert engine.stats.started == 2
    assert len(answer_of(waiting[2])) == 6


def test_a_deadline_ends_what_waits_and_what_runs(hooked: Any) -> None:
    engine, model = hooked
    engine.context = 60
    late = ask(engine, LONG[:40], max_tokens=20, deadline=time.monotonic() + 3600)
    waiting = ask(engine, LONG[:40], deadline=time.monotonic() - 1)
    model.hook = lambda layer, step: setattr(late, "deadline", time.monotonic() - 1)
    engine.step()
    engine.step()
    assert isinstance(error_of(late), DeadlineError)
    assert isinstance(error_of(waiting), DeadlineError)
    assert not engine.busy


def test_a_sink_that_fails_is_a_client_that_left(llm: LLM) -> None:
    class Broken:
        def put(self, event: object, /) -> None:
            raise RuntimeError("the loop is closed")

    engine = engine_of(llm, prefix_cache=0)
    gone, stays = Request(LONG[:9], SamplingParams(), events=Broken()), ask(engine, LONG[:9])
    engine.submit(gone)
    run(engine)
    assert len(answer_of(stays)) == 6
    assert gone.cancelled


def test_progress_of_a_prompt_counts_what_was_known(llm: LLM) -> None:
    engine = engine_of(llm)
    ask(engine, LONG[:40])
    run(engine)
    request = ask(engine, LONG)
    run(engine)
    events = [e for e in events_of(request) if isinstance(e, PrefillProgress)]
    assert (events[0].tokens_done, events[0].tokens_total) == (40, 60)
    assert events[0].eta_seconds is None
    assert events[-1].eta_seconds is not None
    assert engine.status().stats.cached_tokens == 40


def test_the_line_is_bounded_and_says_when_to_come_again() -> None:
    now = 0.0
    line = Line(2, clock=lambda: now)
    requests = [Request([1], SamplingParams()) for _ in range(5)]
    line.enter(requests[0], True)
    line.enter(requests[1], True)
    now = 7.0
    with pytest.raises(QueueFullError, match=r"2 requests are waiting.*--max-queue") as full:
        line.enter(requests[2], True)
    assert full.value.retry_after_seconds == 7.0
    line.enter(requests[3], False)  # a caller's own batch is not refused
    for at, request in ((10.0, requests[0]), (14.0, requests[1])):
        now = at
        line.leave(request)
    line.enter(requests[4], True)
    with pytest.raises(QueueFullError) as full:
        line.enter(requests[2], True)
    assert full.value.retry_after_seconds == 2.0
    assert len(line) == 2


@pytest.mark.parametrize(
    ("seconds", "least", "most"),
    [
        (lambda rows: 0.01 * rows, 40, 60),  # resident: half a second's worth
        (lambda rows: 20.0 + 0.0001 * rows, 900, 2048),  # reads: cutting would cost more
        (lambda rows: min(rows / 60, 1) * 20 + 0.01 * rows, 500, 2048),  # few rows read less
        (lambda rows: 1e-5 * rows, 2048, 2048),  # too quick to cut
    ],
    ids=["compute", "reads", "saturating", "quick"],
)
def test_a_chunk_is_cut_as_far_as_it_pays(seconds: Any, least: int, most: int) -> None:
    pace = Pace(2048)
    pace.read(2048, seconds(2048))
    for _ in range(30):
        pace.decoded(seconds(1))
        chunk = pace.chunk
        pace.read(chunk, seconds(chunk))
    assert least <= pace.chunk <= most
    whole = seconds(2048) / 2048
    assert seconds(pace.chunk) / pace.chunk <= max(2.6 * whole, whole + 1e-9)


def test_a_model_that_hangs_ends_its_requests(llm: LLM) -> None:
    """A read that never comes back; then it does, and the engine goes on."""
    engine, back = engine_of(llm, prefix_cache=0), threading.Event()
    model: Any = Hooked(llm._engine.model)
    model.hook = lambda layer, step: back.wait(20) if layer == 1 else None
    engine._steps._model = model
    thread = EngineThread(engine)
    thread._watchdog.stop()
    watchdog = Watchdog(lambda: engine, stall_seconds=0.2, every_seconds=0.02)
    running = Request(LONG[:9], SamplingParams(max_tokens=3))
    late = Request(LONG[:9], SamplingParams(max_tokens=3), deadline=time.monotonic() - 5)
    try:
        for request in (running, late):
            thread.submit(request)
        failed = next(e for e in iter(running.events.get, None) if isinstance(e, Failed))
        assert isinstance(failed.error, StalledError)
        assert "--stall-timeout" in str(failed.error)
        failed = next(e for e in iter(late.events.get, None) if isinstance(e, Failed))
        assert isinstance(failed.error, DeadlineError | StalledError)
        watchdog.stop()
        back.set()
        after = Request(LONG[:9], SamplingParams(max_tokens=3, ignore_eos=True))
        thread.submit(after)
        ended = next(e for e in iter(after.events.get, None) if isinstance(e, Finished | Failed))
        assert ended == Finished("length")
    finally:
        back.set()
        watchdog.stop()
        thread.close()
    with pytest.raises(ColibriError, match="closed"):
        thread.submit(Request([1], SamplingParams()))
    assert len(engine._line) == 0

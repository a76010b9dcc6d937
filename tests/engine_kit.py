"""An engine that a test steps itself, over the model of an LLM; and what its requests brought."""

from collections.abc import Sequence
from queue import Empty
from typing import Any

from colibri import LLM, SamplingParams
from colibri.engine.engine import Engine
from colibri.engine.request import (
    BranchLogprobs,
    Event,
    Failed,
    Finished,
    PromptLogprobs,
    Request,
    Token,
)
from colibri.engine.watch import Watch


def engine_of(llm: LLM, **settings: Any) -> Engine:
    """A context of 200, and of 10 states beside, and chunks of 5, unless said otherwise."""
    positions = llm._engine._states._overhead
    asked = {"context": 200 + 10 * positions, "prefill_chunk": 5, "logit_rows": 4, **settings}
    asked.setdefault("watch", Watch())
    return Engine(llm._engine.model, sequence_positions=positions, **asked)


def ask(engine: Engine, prompt: Sequence[int], **wish: Any) -> Request:
    """A request, submitted. branches, marks and deadline are the request's, all else sampling's."""
    own = {name: wish.pop(name) for name in ("branches", "marks", "deadline") if name in wish}
    params = {"temperature": 0.0, "max_tokens": 6, "ignore_eos": True, "logprobs": 0, **wish}
    request = Request(list(prompt), SamplingParams(**params), **own)
    engine.enqueue(request, bounded=False)
    engine.submit(request)
    return request


def run(engine: Engine, most: int = 10_000) -> int:
    """Until nothing is left to do; the steps that it took."""
    for step in range(most):
        if not engine.busy:
            return step
        engine.step()
    raise AssertionError(f"still busy after {most} steps")


def events_of(request: Request) -> list[Event]:
    found = []
    while True:
        try:
            found.append(request.events.get_nowait())  # type: ignore[attr-defined]
        except Empty:
            return found


def answer_of(request: Request) -> list[tuple[int, float | None]]:
    """Its tokens with their log-probabilities; it must have ended well."""
    events = events_of(request)
    assert isinstance(events[-1], Finished), events[-1]
    return [(e.id, e.logprob) for e in events if isinstance(e, Token)]


def prompt_logprobs_of(request: Request) -> list[Token]:
    found = [e for e in events_of(request) if isinstance(e, PromptLogprobs)]
    return [token for event in found for token in event.tokens]


def branches_of(request: Request) -> tuple[tuple[float, ...], ...]:
    (found,) = [e for e in events_of(request) if isinstance(e, BranchLogprobs)]
    return found.branches


def error_of(request: Request) -> BaseException:
    last = events_of(request)[-1]
    assert isinstance(last, Failed), last
    return last.error

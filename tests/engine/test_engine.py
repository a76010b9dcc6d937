"""What the engine takes in at a time: no more than the plan has memory for."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import golden
from colibri import LLM, SamplingParams
from colibri.engine.engine import Engine
from colibri.engine.request import Call, Failed, Finished, Request, Token
from colibri.engine.watch import Watch

F32 = NDArray[np.float32]
PARAMS = SamplingParams(temperature=0, max_tokens=12, ignore_eos=True)


class Recorder:
    """A model that notes how many rows its head gets."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self.rows: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def logits(self, hidden: F32) -> F32:
        self.rows.append(len(hidden))
        logits: F32 = self._model.logits(hidden)
        return logits


@pytest.fixture(scope="module")
def llm() -> Iterator[LLM]:
    with LLM(golden.tiny("olmoe")) as llm:
        yield llm


def engine_of(model: Any, context: int = 100, prefill_chunk: int = 6) -> Engine:
    return Engine(model, context=context, prefill_chunk=prefill_chunk, logit_rows=4, watch=Watch())


def tokens_of(request: Request) -> list[int]:
    found = []
    while not isinstance(event := request.events.get_nowait(), Finished):
        if isinstance(event, Token):
            found.append(event.id)
    return found


def run(engine: Engine) -> int:
    """Until nothing is left to do; the most sequences that ran at a time."""
    most = 0
    while engine.busy:
        engine.step()
        most = max(most, len(engine._running))
    return most


def test_many_short_requests_stay_within_the_rows_of_a_step(llm: LLM) -> None:
    model: Any = Recorder(llm._engine.model)
    engine = engine_of(model)
    requests = [Request([5 + i], PARAMS) for i in range(15)]
    for request in requests:
        engine.submit(request)
    assert run(engine) == 6
    assert max(model.rows) == 4
    for i, request in enumerate(requests):
        assert tuple(tokens_of(request)) == llm.generate([5 + i], PARAMS).token_ids


def test_logits_of_a_long_prompt_are_made_in_pieces(llm: LLM) -> None:
    model: Any = Recorder(llm._engine.model)
    logits = engine_of(model).forward(list(range(5, 28)))
    assert max(model.rows) == 4
    assert (logits.view(np.uint32) == llm.forward(list(range(5, 28))).view(np.uint32)).all()


def test_a_call_waits_in_line_for_the_room_of_its_state(llm: LLM) -> None:
    engine = engine_of(llm._engine.model, context=30)
    ran: list[int] = []
    first, later = Request([5] * 10, PARAMS), Request([6], PARAMS)
    engine.submit(first)
    engine.step()
    engine.submit(Call(12, lambda: ran.append(len(engine._running)), print))
    engine.submit(later)
    while engine._running:
        assert not ran
        assert [s.request for s in engine._running] == [first]
        engine.step()
    run(engine)
    assert ran == [0]
    assert len(tokens_of(later)) == PARAMS.max_tokens


def test_a_bias_beyond_the_vocabulary_is_refused_before_the_prompt_is_read(llm: LLM) -> None:
    engine = engine_of(llm._engine.model)
    params = SamplingParams(logit_bias={llm._engine.model.vocab_size: 1.0})
    request = Request([5, 6], params)
    engine.submit(request)
    assert run(engine) == 0
    failed = request.events.get_nowait()
    assert isinstance(failed, Failed)
    assert "logit_bias names token" in str(failed.error)
    assert engine.stats.prefill_tokens == 0

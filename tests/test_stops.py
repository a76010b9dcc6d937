"""An answer ends at its stop string in the engine itself, however slowly it is read."""

import time
from collections.abc import Iterator
from queue import SimpleQueue

import httpx2
import pytest
from server_kit import serving

from colibri import LLM, SamplingParams
from colibri.engine.request import Event, Finished, Token

LONG = {"temperature": 0.0, "max_tokens": 400, "ignore_eos": True}
PROMPTS = ["A cat", "A dog and a cat", "Lisbon is"]


@pytest.fixture(scope="module")
def demo() -> Iterator[LLM]:
    with LLM(ram="2GB", context=2048) as llm:
        yield llm


def made(llm: LLM) -> int:
    """Tokens of answers so far, once nothing runs."""
    while (status := llm.status()).running or status.waiting:
        time.sleep(0.01)
    return status.stats.decode_tokens + status.stats.mixed_tokens


def early(llm: LLM, prompt: str) -> tuple[str, int]:
    """A text that stands in the answer after a few tokens, and of how many it is."""
    answer = llm.generate(prompt, SamplingParams(**{**LONG, "max_tokens": 6}))
    pieces = [c.text for c in llm.stream(prompt, SamplingParams(**{**LONG, "max_tokens": 6}))]
    at = next(i for i, piece in enumerate(pieces) if i >= 2 and len(piece.strip()) > 1)
    stop = pieces[at]
    assert stop in answer.text
    return stop, at + 1


def test_each_of_several_prompts_ends_at_its_stop(demo: LLM) -> None:
    stop, _ = early(demo, PROMPTS[1])
    params = SamplingParams(**LONG, stop=(stop,))
    alone = [demo.generate(prompt, params) for prompt in PROMPTS]
    assert [a.finish_reason for a in alone[:2]] == ["length", "stop"]
    before = made(demo)
    together = demo.generate(PROMPTS, params)
    assert [(a.text, a.token_ids, a.finish_reason) for a in together] == [
        (a.text, a.token_ids, a.finish_reason) for a in alone
    ]
    assert made(demo) - before <= sum(len(a.token_ids) for a in together)


def test_a_reader_that_pauses_costs_nothing(demo: LLM) -> None:
    stop, count = early(demo, PROMPTS[1])
    before = made(demo)
    chunks = demo.stream(PROMPTS[1], SamplingParams(**LONG, stop=(stop,)))
    next(chunks)
    assert made(demo) - before <= count  # while nobody reads
    assert [c.finish_reason for c in chunks][-1] == "stop"


def test_the_engine_says_that_the_answer_stopped(demo: LLM) -> None:
    stop, count = early(demo, PROMPTS[0])
    events: SimpleQueue[Event] = SimpleQueue()
    answer = demo.request(PROMPTS[0], SamplingParams(**LONG, stop=(stop,)), sink=events)
    demo.submit(answer)
    made(demo)
    found = [events.get() for _ in range(events.qsize())]
    assert sum(isinstance(event, Token) for event in found) == count
    assert found[-1] == Finished("stop")


def test_a_chat_ends_at_a_stop(demo: LLM) -> None:
    question = [{"role": "user", "content": "What is the capital of Portugal?"}]
    whole = demo.chat(question, SamplingParams(temperature=0.0, max_tokens=40))
    before = made(demo)
    params = SamplingParams(**LONG, stop=("Portugal",))
    stopped = demo.chat(question, params)
    assert stopped.text == whole.text[: whole.text.index("Portugal")]
    assert made(demo) - before <= len(stopped.token_ids)


def test_several_answers_of_a_server_end_at_their_stop(demo: LLM) -> None:
    stop, count = early(demo, PROMPTS[1])
    body = {"prompt": PROMPTS[1], "stop": [stop], "n": 3, "temperature": 0, "max_tokens": 400}
    with serving(demo) as running, httpx2.Client(base_url=running.url, timeout=30) as http:
        before = made(demo)
        answer = http.post("/v1/completions", json=body).json()
        assert {choice["finish_reason"] for choice in answer["choices"]} == {"stop"}
        assert made(demo) - before <= 3 * count

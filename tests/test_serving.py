"""What a server builds on: requests with sinks, the bounded line, status; prefixes of a chat."""

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from colibri import LLM, SamplingParams
from colibri.answer import Chunk
from colibri.engine.request import Event, PrefillProgress
from colibri.errors import CapacityError, ConfigError, DeadlineError, QueueFullError, TokenizerError
from colibri.llm import embedded_model
from colibri.llm.asking import Asker

GREEDY = SamplingParams(temperature=0, max_tokens=12)


@pytest.fixture(scope="module")
def demo() -> Iterator[LLM]:
    with LLM(max_queue=2) as llm:
        yield llm


class Sink:
    """Events of one request, as a server's loop gets them."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.came = threading.Condition()

    def put(self, event: Event, /) -> None:
        with self.came:
            self.events.append(event)
            self.came.notify()

    def each(self) -> Iterator[Event]:
        for at in range(10_000):
            with self.came:
                assert self.came.wait_for(lambda at=at: len(self.events) > at, timeout=20)
                event = self.events[at]
            yield event


def test_events_that_are_pushed_give_the_answer(demo: LLM) -> None:
    sink, made = Sink(), []
    answer = demo.request("Once upon", GREEDY, sink=sink)
    demo.submit(answer)
    for event in sink.each():
        made.append(answer.push(event))
        if answer.finished:
            break
    assert any(isinstance(one, PrefillProgress) for one in made)
    chunks = [one for one in made if isinstance(one, Chunk)]
    whole = answer.completion(chunks, 0.0, 0.0)
    want = demo.generate("Once upon", GREEDY)
    assert (whole.text, whole.token_ids, whole.finish_reason) == (
        want.text,
        want.token_ids,
        want.finish_reason,
    )
    with pytest.raises(ConfigError, match="a sink of its own"):
        next(answer.chunks())


def test_a_stop_string_ends_the_request_without_the_server(demo: LLM) -> None:
    sink = Sink()
    want = demo.generate("Once upon", GREEDY).text
    params = SamplingParams(temperature=0, max_tokens=500, stop=(want[3:6],))
    answer = demo.request("Once upon", params, sink=sink)
    demo.submit(answer)
    for event in sink.each():
        answer.push(event)
        if answer.finished:
            break
    assert answer.request.cancelled


def test_a_full_line_refuses_and_says_when_to_come_again(demo: LLM) -> None:
    long = SamplingParams(temperature=0, max_tokens=1500, ignore_eos=True)
    running = [demo.request([5, 6, n], long) for n in range(2)]  # each takes most of the context
    waiting = [demo.request([7, n], GREEDY) for n in range(2)]
    while demo.status().running:
        time.sleep(0.001)
    try:
        demo.submit(running[0])
        while not demo.status().running or demo.status().waiting:
            time.sleep(0.001)
        demo.submit(running[1])
        demo.submit(waiting[0])
        with pytest.raises(QueueFullError) as full:
            demo.submit(waiting[1])
        assert full.value.retry_after_seconds >= 1
        status = demo.status()
        assert (len(status.running), status.waiting) == (1, 2)
        (first,) = status.running
        assert (first.prompt_tokens, first.cached_tokens) == (3, 0)
        assert first.seconds > 0
    finally:
        for answer in (*running, *waiting):
            answer.cancel()
    while demo.status().running:
        time.sleep(0.001)
    assert demo.status().stats.ended["cancelled"] >= 3


def test_a_deadline_that_passed_ends_the_answer(demo: LLM) -> None:
    answer = demo.request("Once", GREEDY, deadline=time.monotonic() - 1)
    demo.submit(answer)
    with pytest.raises(DeadlineError):
        list(answer.chunks())


def test_bad_requests_are_refused_before_they_are_queued(demo: LLM) -> None:
    with pytest.raises(ConfigError, match="a prompt or messages"):
        demo.request(None, GREEDY)
    with pytest.raises(ConfigError, match="thinking: for messages only"):
        demo.request("x", GREEDY, thinking=True)
    with pytest.raises(CapacityError):
        demo.request([5] * 5000, GREEDY)
    with pytest.raises(ConfigError, match="max_tokens is 0"):
        SamplingParams(max_tokens=0)
    assert demo.request([5] * 2048, SamplingParams(max_tokens=0, prompt_logprobs=0))
    with pytest.raises(CapacityError):
        demo.request([5] * 2048, SamplingParams(max_tokens=1, prompt_logprobs=0))


def test_what_was_cached_is_said(demo: LLM) -> None:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Tell me a story."}]
    first = demo.chat(messages, GREEDY)
    messages += [first.message(), {"role": "user", "content": "Go on."}]
    second = demo.chat(messages, GREEDY)
    assert 0 < second.cached_tokens < second.prompt_tokens
    with LLM(prefix_cache=0) as plain:
        again = plain.chat(messages, GREEDY)
    assert (again.cached_tokens, again.token_ids) == (0, second.token_ids)


def asker(**changes: Any) -> Asker:
    with LLM() as llm:
        settings = {"vocab_size": 10**6, "context": 2048, "marks": True, **changes}
        eos = frozenset[int]()
        return Asker(embedded_model(), "x", llm.tokenizer, eos, llm.default_params, **settings)


def test_where_the_next_turn_parts_is_marked() -> None:
    """For states that cannot be cut: before the last message, and before the answer begins."""
    ask = asker()
    messages = [{"role": "user", "content": "One."}, {"role": "assistant", "content": "Two."}]
    messages.append({"role": "user", "content": "Three."})
    request = ask.conversation(messages, None, {}).request
    prompt, encode = list(request.prompt_ids), ask.need_tokenizer().encode
    assert len(request.marks) == 2
    changed = [*messages[:-1], {"role": "user", "content": "Four."}]
    goes_on = [*messages, {"role": "assistant", "content": "Five."}]
    goes_on.append({"role": "user", "content": "Six."})
    for mark, other in zip(request.marks, (changed, goes_on), strict=True):
        ids = encode(ask.rendered(other, {})[0], False)
        assert ids[:mark] == prompt[:mark]
    assert asker(marks=False).conversation(messages, None, {}).request.marks == ()


def test_a_model_without_a_tokenizer_takes_ids_only() -> None:
    with LLM() as llm:
        settings = {"vocab_size": 500, "context": 64, "marks": False}
        ask = Asker(embedded_model(), "x", None, frozenset(), llm.default_params, **settings)
    assert ask.raw([5, 6], None).request.prompt_ids == [5, 6]
    with pytest.raises(TokenizerError):
        ask.question("x", ["a", "b"], "mean", rendered=False)

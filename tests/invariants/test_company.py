"""An answer is the one that its prompt gets alone, whatever else runs, and whatever was kept of
other prompts."""

from typing import Any

import numpy as np
import pytest

from colibri.kernels import ops
from engine_kit import answer_of, ask, branches_of, engine_of, prompt_logprobs_of, run

ALONE: dict[str, Any] = {"prefix_cache": 0}


@pytest.fixture(scope="module")
def llm(subject: Any) -> Any:
    with subject.open(cache_experts=3) as llm:
        yield llm


def alone(llm: Any, prompt: list[int], **wish: Any) -> list[Any]:
    engine = engine_of(llm, **ALONE)
    request = ask(engine, prompt, **wish)
    run(engine)
    return answer_of(request)


def test_joining_and_leaving_at_every_place(subject: Any, llm: Any) -> None:
    """One decodes while a long prompt is read in chunks, another comes, a third is given up."""
    long, other = subject.prompt, [(7 * t + 3) % 100 for t in subject.prompt[:9]]
    drawn = {"temperature": 0.8, "seed": 11}
    want = [alone(llm, long), alone(llm, other, **drawn), alone(llm, long[3:7])]
    mixed = 0
    for steps in range(8):
        engine = engine_of(llm, **ALONE)
        requests = [ask(engine, long)]
        for _ in range(steps):
            engine.step()
        requests.append(ask(engine, other, **drawn))
        given_up = ask(engine, long[2:], max_tokens=20)
        engine.step()
        requests.append(ask(engine, long[3:7]))
        for _ in range(steps):
            engine.step()
        given_up.cancel()
        run(engine)
        assert [answer_of(request) for request in requests] == want
        mixed += engine.stats.mixed_steps
    assert mixed > 8


def test_conversations_that_branch_and_interleave(subject: Any, llm: Any) -> None:
    """Turns of two conversations with one beginning, a changed last message, a repeat; then all of
    it at once."""
    first = subject.prompt[:14]
    prompts = [
        [*first, 50, 51, 52],
        [*first, 60, 61],
        [*first, 50, 51, 52, 7, 8],  # goes on
        [*first, 60, 61, 9, 10, 11],
        [*first, 50, 51, 53],  # the last message changed
        [*first, 50, 51, 52],  # again
        first,
        [77, *first],
    ]
    want = [alone(llm, prompt) for prompt in prompts]
    engine, got, cached = engine_of(llm), [], []
    for prompt in prompts:
        request = ask(engine, prompt)
        run(engine)
        got.append(answer_of(request))
        cached.append(request.cached_tokens)
    assert got == want
    if engine._states._overhead == 0:
        assert cached == [0, 14, 17, 16, 16, 16, 13, 0]
    assert cached[0] == cached[7] == 0
    assert cached[2] >= 16
    assert cached[5] == 16
    together = engine_of(llm)
    requests = [ask(together, prompt) for prompt in prompts]
    run(together)
    assert [answer_of(request) for request in requests] == want


def test_an_answer_is_gone_on_from(subject: Any, llm: Any) -> None:
    engine = engine_of(llm)
    prompt = subject.prompt[:11]
    first = ask(engine, prompt)
    run(engine)
    answer = [token for token, _ in answer_of(first)]
    longer = [*prompt, *answer, 5, 6]
    again = ask(engine, longer)
    run(engine)
    assert again.cached_tokens == len(prompt) + len(answer) - 1
    assert answer_of(again) == alone(llm, longer)


def test_prompt_logprobs_are_those_of_forward(subject: Any, llm: Any) -> None:
    prompt = subject.prompt
    logits = llm.forward(prompt)
    totals = ops.log_sum_exp(logits)
    want = [float(logits[i - 1, t]) - float(totals[i - 1]) for i, t in enumerate(prompt) if i]
    engine = engine_of(llm)
    for part, reused in ((len(prompt), 0), (len(prompt), 2), (len(prompt) - 3, 2)):
        request = ask(engine, prompt[:part], prompt_logprobs=2, max_tokens=0)
        beside = ask(engine, prompt[5:9])
        run(engine)
        tokens = prompt_logprobs_of(request)
        assert [token.id for token in tokens] == prompt[1:part]
        assert [token.logprob for token in tokens] == want[: part - 1]
        assert all(len(token.top) == 2 for token in tokens)
        assert tokens[3].top[0][1] == float(logits[3].max()) - float(totals[3])
        assert request.cached_tokens >= reused
        answer_of(beside)


def test_branches_have_the_logprobs_of_decoding(subject: Any, llm: Any) -> None:
    """To the bit; beside other work, from a known prompt, and leaving the prompt known."""
    prompt = subject.prompt[:13]
    branches = [[5], [6, 7, 8], [6, 7, 9, 10], [6, 11], [6, 7], [12, 13, 14, 15, 16, 17, 18]]
    want = []
    for branch in branches:
        logits = llm.forward([*prompt, *branch])
        totals = ops.log_sum_exp(logits)
        at = range(len(prompt) - 1, len(prompt) + len(branch) - 1)
        scores = [float(logits[i, t]) - float(totals[i]) for i, t in zip(at, branch, strict=True)]
        want.append(tuple(scores))
    engine = engine_of(llm)
    for cached in (0, len(prompt) - 1):
        request = ask(engine, prompt, branches=branches)
        beside = ask(engine, subject.prompt[4:])
        before = engine.stats.prefill_tokens + engine.stats.decode_tokens
        run(engine)
        assert branches_of(request) == tuple(want)
        assert request.cached_tokens == cached
        assert answer_of(beside) == alone(llm, subject.prompt[4:])
        assert engine.stats.prefill_tokens + engine.stats.decode_tokens > before
    after = ask(engine, [*prompt, 3])
    run(engine)
    assert after.cached_tokens >= len(prompt) - 1
    assert answer_of(after) == alone(llm, [*prompt, 3])


def test_several_answers_to_one_prompt_read_it_once(subject: Any, llm: Any) -> None:
    prompt = (subject.prompt * 2)[:40]
    engine = engine_of(llm)
    requests = [ask(engine, prompt, temperature=1.0, seed=seed) for seed in range(4)]
    run(engine)
    assert [answer_of(r) for r in requests] == [
        alone(llm, prompt, temperature=1.0, seed=seed) for seed in range(4)
    ]
    assert [r.cached_tokens for r in requests] == [0, 39, 39, 39]
    assert engine.stats.prefill_tokens == 40 + 3


def test_nothing_known_first_and_parting_at_the_first_token(subject: Any, llm: Any) -> None:
    """With chunks of one token, of all, and a context that is just enough."""
    prompt = subject.prompt[:8]
    want, other = alone(llm, prompt), alone(llm, [99, *prompt[1:]])
    for chunk in (1, 64):
        engine = engine_of(llm, prefill_chunk=chunk, context=14)
        for _ in range(2):
            first, parted = ask(engine, prompt), ask(engine, [99, *prompt[1:]])
            run(engine)
            assert answer_of(first) == want
            assert answer_of(parted) == other
            assert parted.cached_tokens in (0, 7)
    assert np.isfinite([p for _, p in want]).all()

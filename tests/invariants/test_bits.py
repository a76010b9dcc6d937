"""The same bits whatever the cache, the chunks, the threads, the CPU path and the company."""

import functools
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from faults import Faulty, jitter
from numpy.typing import NDArray

import colibri.runtime.runtime
import mirror_kit
from colibri import LLM
from colibri.experts.streamed import StreamedExperts
from colibri.kernels import cpu
from colibri.layers.step import Step
from promises import assert_same_bits

F32 = NDArray[np.float32]


@pytest.mark.parametrize("capacity", range(1, 9))
def test_cache_capacity(subject: Any, expected: F32, capacity: int) -> None:
    with subject.open(cache_experts=capacity) as llm:
        cold = llm.forward(subject.prompt)
        read = llm.stats().misses
        warm = llm.forward(subject.prompt)
        again = llm.stats().misses - read
    assert again > 0 or capacity > 1
    assert again == 0 or capacity < 8
    assert_same_bits(cold, expected)
    assert_same_bits(warm, expected)


@pytest.mark.parametrize("chunk", [1, 7])
@pytest.mark.parametrize("capacity", [1, None])
def test_prompt_chunks(subject: Any, expected: F32, chunk: int, capacity: int | None) -> None:
    assert_same_bits(subject.logits(prefill_chunk=chunk, cache_experts=capacity), expected)


@pytest.mark.parametrize("lookahead", [1, 2, "auto"])
@pytest.mark.parametrize("capacity", [1, 5])
def test_lookahead(
    subject: Any, expected: F32, capacity: int, lookahead: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With reads that take unlike times; whole prompt, then token by token, then again warm."""
    slow_experts = functools.partial(StreamedExperts, read=Faulty(jitter))
    monkeypatch.setattr(colibri.runtime.runtime, "StreamedExperts", slow_experts)
    with subject.open(cache_experts=capacity, lookahead=lookahead) as llm:
        whole = llm.forward(subject.prompt)
        state = llm._engine.model.new_state(len(subject.prompt))
        rows = [advance(llm, [(state, [token])]) for token in subject.prompt]
        again = llm.forward(subject.prompt)
    for logits in (whole, np.concatenate(rows), again):
        assert_same_bits(logits, expected)


@pytest.mark.parametrize("capacity", [2, 3])
def test_pins(subject: Any, expected: F32, capacity: int) -> None:
    """Learnt from the prompt, then changed under way."""
    from colibri import SamplingParams

    with subject.open(cache_experts=capacity, pin="all") as llm:
        llm.generate(subject.prompt, SamplingParams(max_tokens=2))
        first = llm.forward(subject.prompt)
        assert any(llm.experts.held(layer) for layer in llm.plan.slots)
        llm.experts.hold({layer: [1] for layer in llm.plan.slots})
        again = llm.forward(subject.prompt)
    assert_same_bits(first, expected)
    assert_same_bits(again, expected)


@pytest.mark.parametrize("threads", [2, 3])
def test_threads(subject: Any, expected: F32, threads: int) -> None:
    assert_same_bits(subject.logits(threads=threads), expected)
    assert cpu.num_threads() == threads


@pytest.mark.parametrize("path", cpu.supported_paths())
def test_cpu_paths(subject: Any, expected: F32, path: str) -> None:
    assert_same_bits(subject.logits(cpu=path, prefill_chunk=16), expected)
    assert cpu.active_path() == path


def test_mirrors(
    subject: Any, expected: F32, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mirror of whole files and one of the hottest half, all experts cut over all drives."""
    monkeypatch.setattr("colibri.experts.reads.sources.LEAST_PART_BYTES", 4096)
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    mirror_kit.stage(subject.path, tmp_path / "a", "shards")
    half = mirror_kit.experts_bytes(mirror_kit.layers_of(subject.path)) // 2
    mirror_kit.stage(subject.path, tmp_path / "b", budget=half)
    mirrors = (str(tmp_path / "a"), str(tmp_path / "b"))
    settings = {"mirror": mirrors, "disk_weights": (1.0, 2.0, 1.0), "cache_experts": 2}
    with subject.open(lookahead=1, **settings) as llm:
        assert_same_bits(llm.forward(subject.prompt), expected)
        assert_same_bits(llm.forward(subject.prompt), expected)
        assert all(drive.nbytes for drive in llm.stats().drives)


def test_eviction_between_tokens(subject: Any, expected: F32) -> None:
    with subject.open() as llm:
        state = llm._engine.model.new_state(len(subject.prompt))
        rows = []
        for token in subject.prompt:
            llm.experts.drop_all()
            rows.append(advance(llm, [(state, [token])]))
        assert llm.stats().hits == 0
    assert_same_bits(np.concatenate(rows), expected)


def test_unlike_sequences_in_one_batch(subject: Any, expected: F32) -> None:
    """A sequence's rows beside a longer one, a shorter one and a single token at another
    position."""
    prompt = subject.prompt
    other = [(7 * t + 3) % 100 for t in prompt]
    with subject.open(cache_experts=2) as llm:
        states = [llm._engine.model.new_state(2 * len(prompt)) for _ in range(4)]
        advance(llm, [(states[2], other[:9])])
        advance(llm, [(states[0], prompt[:5]), (states[1], other), (states[3], prompt[:1])])
        logits = advance(
            llm,
            [
                (states[1], other[:3]),
                (states[0], prompt[5:]),
                (states[2], other[9:10]),
                (states[3], prompt[1:]),
            ],
        )
    n = len(prompt)
    assert_same_bits(logits[3 : 3 + n - 5], expected[5:])
    assert_same_bits(logits[3 + n - 5 + 1 :], expected[1:])


def test_checkpoint_and_restore(subject: Any, expected: F32) -> None:
    prompt = subject.prompt
    with subject.open() as llm:
        state = llm._engine.model.new_state(2 * len(prompt))
        advance(llm, [(state, prompt[:10])])
        checkpoint = state.checkpoint()
        for detour in ([5, 6, 7], [1]):
            advance(llm, [(state, detour)])
            state.restore(checkpoint)
        assert state.length == 10
        assert_same_bits(advance(llm, [(state, prompt[10:])]), expected[10:])


def test_generation_equals_teacher_forcing(subject: Any) -> None:
    from colibri import SamplingParams

    params = SamplingParams(temperature=0, max_tokens=8, ignore_eos=True, logprobs=0)
    with subject.open(cache_experts=2) as llm:
        alone = llm.generate(subject.prompt, params)
        several = llm.generate([subject.prompt, subject.prompt[:3], subject.prompt], params)
        forced = llm.forward([*subject.prompt, *alone.token_ids])
    assert [int(row.argmax()) for row in forced[len(subject.prompt) - 1 : -1]] == list(
        alone.token_ids
    )
    assert several[0].token_ids == several[2].token_ids == alone.token_ids
    assert several[0].logprobs == alone.logprobs


def advance(llm: LLM, parts: Any) -> F32:
    model = llm._engine.model
    return model.logits(model.forward(Step.of(parts)))

"""Long runs, by `make soak`."""

from __future__ import annotations

import functools
import itertools
import os

import pytest

import colibri.runtime.runtime
from colibri import LLM, SamplingParams
from colibri.experts.streamed import StreamedExperts
from colibri.hardware.probe import rss_bytes

TOKENS = 100_000
TURN = 250


@pytest.mark.soak
def test_long_use_neither_grows_nor_drifts() -> None:
    params = SamplingParams(seed=3, max_tokens=300, ignore_eos=True)
    question = [{"role": "user", "content": "Tell me a story about a fox."}]
    with LLM(cache_experts=32) as llm:
        expected = llm.chat(question, params).token_ids
    with LLM(cache_experts=3) as llm:
        for _ in range(5):
            assert llm.chat(question, params).token_ids == expected
        settled = rss_bytes()
        for turn in range(60):
            llm.generate([turn + 1, 2, 3], SamplingParams(seed=turn, max_tokens=200))
        assert llm.chat(question, params).token_ids == expected
        assert rss_bytes() - settled < 8_000_000


class FlakyDisk:
    """Every hundredth read fails; it is tried again."""

    def __init__(self) -> None:
        self._reads = itertools.count(1)

    def __call__(self, fd: int, buffers: list[memoryview], offset: int) -> int:
        if next(self._reads) % 100 == 0:
            raise OSError(5, "Input/output error")
        return os.preadv(fd, buffers, offset)


@pytest.mark.soak
def test_a_hundred_thousand_tokens_undisturbed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Capacity changes, one read in a hundred fails: same text, books that add up, no growth."""
    turns = [([turn % 90 + 5, 2, 3], turn) for turn in range(TOKENS // TURN)]

    def answer(llm: LLM, prompt: list[int], seed: int) -> tuple[int, ...]:
        params = SamplingParams(seed=seed, max_tokens=TURN, ignore_eos=True)
        return tuple(llm.generate(prompt, params).token_ids)

    with LLM(cache_experts=32) as llm:
        expected = [answer(llm, *turn) for turn in turns]
    flaky = functools.partial(StreamedExperts, read=FlakyDisk())
    monkeypatch.setattr(colibri.runtime.runtime, "StreamedExperts", flaky)
    with LLM(cache_experts=32, lookahead=1) as llm:
        settled = None
        for index, (turn, text) in enumerate(zip(turns, expected, strict=True)):
            llm._runtime.thread.call(lambda n=(3, 8, 20)[index % 3]: llm.experts.resize(n), 1)
            assert answer(llm, *turn) == text
            counted = llm.experts.stats()
            assert counted.hits + counted.misses == sum(
                hits + misses for hits, misses in llm.experts.layer_counts().values()
            )
            assert counted.reads >= counted.misses - counted.prefetch_useful
            settled = settled or (rss_bytes() if index == 20 else None)
        assert settled is not None
        assert rss_bytes() - settled < 16_000_000

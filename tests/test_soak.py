"""Long runs, by `make soak`."""

from __future__ import annotations

import pytest

from colibri import LLM, SamplingParams
from colibri.hardware.probe import rss_bytes


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

"""Approximate routing that does not look at the cache keeps the promise of the bits."""

from typing import Any

import numpy as np
import pytest

import golden
from colibri import LLM
from colibri.kernels import cpu
from promises import assert_same_bits

MODES: dict[str, dict[str, Any]] = {
    "gumbel": {"router": "gumbel"},
    "soft": {"router": "soft"},
    "table": {"router": "int8-table"},
    "top-k": {"experts_per_token": 1},
    "top-p": {"expert_top_p": 0.6},
    "all": {"router": "gumbel", "experts_per_token": 3, "expert_top_p": 0.7},
}


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
@pytest.mark.parametrize("family", golden.FAMILIES)
def test_cache_chunks_and_cpu_path_change_nothing(family: str, mode: dict[str, Any]) -> None:
    prompt = golden.reference(family).prompt_ids

    def logits(**settings: Any) -> np.ndarray[Any, np.dtype[np.float32]]:
        with LLM(golden.tiny(family), **{"lookahead": "off", **mode, **settings}) as llm:
            return llm.forward(prompt)

    expected = logits()
    assert_same_bits(logits(prefill_chunk=1, cache_experts=1), expected)
    other = next(path for path in cpu.supported_paths() if path != cpu.active_path())
    assert_same_bits(logits(prefill_chunk=5, threads=1, cpu=other, lookahead=1), expected)


def test_cache_aware_is_exact_where_everything_is_resident() -> None:
    prompt = golden.reference("olmoe").prompt_ids
    with LLM(golden.tiny("olmoe")) as llm:
        expected = llm.forward(prompt)
    with LLM(golden.tiny("olmoe"), router="cache-aware:J=1,M=8") as llm:
        for layer, count in llm.plan.experts_per_layer.items():
            x = np.zeros((1, llm.container.config["hidden_size"]), np.float32)
            everyone = np.arange(count, dtype=np.int32)[None]
            llm.experts.run(layer, x, everyone, np.zeros((1, count), np.float32))
        assert_same_bits(llm.forward(prompt), expected)
        assert llm.stats().experts_swapped == 0 < llm.stats().experts_chosen

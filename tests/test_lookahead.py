"""Lookahead on a trained model: what is guessed is mostly right, and hardly a byte is wasted.

The bounds are wide: which read lands in time differs from run to run, its result does not.
"""

import pytest

from colibri import LLM, SamplingParams
from colibri.errors import ConfigError

PROMPT = """\
Once upon a time there was a little fox who lived in a big wood. Every morning the fox ran to
the river to look at the fish. One day a bird sat on a stone and cried. "Why do you cry?" asked
the fox. "I have lost my red hat," said the bird. "The wind took it away." The fox was kind. "Do
not be sad," said the fox. "We will find your hat together." They looked under the trees and
behind the hill. They asked the old bear, but he was asleep. At last they saw something red in
the water. The fox jumped in and brought the hat back. The bird was so happy that she sang a
song. From that day on the fox and the bird were the best of friends, and they played by the
river every day."""
PARAMS = SamplingParams(max_tokens=120, temperature=0.8, seed=1, ignore_eos=True)


def answer(**settings):
    with LLM(**settings) as llm:
        text = llm.generate("Once upon a time", PARAMS).text
        return text, llm.experts.stats()


def test_decoding_reads_ahead_what_is_mostly_wanted():
    plain, without = answer(cache_experts=8, lookahead="off")
    text, stats = answer(cache_experts=8, lookahead=1)
    assert text == plain
    assert stats.lookahead_recall > 0.4
    assert stats.prefetch_reads > 20
    assert stats.prefetch_useful > 0.5 * stats.prefetch_reads
    assert stats.hits > without.hits
    assert stats.bytes_read < 1.4 * without.bytes_read
    assert without.prefetch_reads == without.guesses.missing == 0


def test_looking_further_ahead_gives_the_same_text():
    assert answer(cache_experts=5, lookahead=3)[0] == answer(lookahead="off")[0]


def test_a_cold_prompt_is_read_ahead_for_and_hardly_a_byte_too_many():
    reads = {}
    for lookahead in ("off", "auto"):
        with LLM(lookahead=lookahead) as llm:
            ids = llm.tokenizer.encode(PROMPT, add_special_tokens=True)
            llm.forward(ids)
            stats = llm.experts.stats()
            reads[lookahead] = stats.reads
    assert stats.prefetch_useful > 0
    assert reads["auto"] <= reads["off"] + 3


def test_nothing_is_guessed_when_everything_is_resident():
    with LLM(lookahead=1) as llm:
        for layer in llm.experts._stages:
            llm.experts.hint(layer, range(32), 32)
        while not all(map(llm.experts.complete, llm.experts._stages)):
            llm.experts._ahead.collect()
        llm.experts.expire()
        llm.experts.reset()
        llm.generate("Once upon a time", PARAMS)
        stats = llm.experts.stats()
    assert stats.misses == stats.guesses.guessed == stats.prefetch_reads == 0


@pytest.mark.parametrize("value", [0, 9, "on", True, 1.5])
def test_other_depths_are_refused(value):
    with pytest.raises(ConfigError, match=r"lookahead: .* is not one of off, auto, 1, 2"):
        LLM(lookahead=value)

"""What an approximation costs is measured, and measuring changes nothing."""

import numpy as np
import pytest

import golden
from colibri import LLM, SamplingParams
from colibri.engine.check import kl
from colibri.errors import Cancelled
from colibri.layers.exact import exact_twin
from colibri.layers.step import Step
from promises import assert_same_bits

PARAMS = SamplingParams(temperature=0, max_tokens=20, ignore_eos=True)
PROMPT = golden.reference("glm_moe_dsa").prompt_ids[:12]
ASKED = {
    "gumbel": {"router": "gumbel"},
    "soft": {"router": "soft:seed=3"},
    "table": {"router": "int8-table"},
    "k": {"experts_per_token": 1},
    "p": {"expert_top_p": 0.6},
    "all": {"router": "gumbel", "experts_per_token": 3, "expert_top_p": 0.8},
}


def open_tiny(family="glm_moe_dsa", **settings):
    return LLM(golden.tiny(family), **settings)


def answer(**settings):
    with open_tiny(**settings) as llm:
        return llm.generate(PROMPT, PARAMS).token_ids, llm.stats()


@pytest.mark.parametrize("settings", ASKED.values(), ids=ASKED)
def test_checking_changes_no_token(settings):
    unchecked, quiet = answer(**settings, approx_check="off")
    checked, stats = answer(**settings)
    assert checked == unchecked
    assert quiet.approx_tokens == 0
    assert quiet.approx_agreement is None
    assert stats.approx_tokens == PARAMS.max_tokens - 1  # the first follows from the prompt
    assert stats.approx_kl > 0
    assert stats.approx_seconds > 0


def test_what_is_exact_costs_nothing():
    """As many experts as the family takes: an approximation in name only."""
    own, plain = answer()
    same, stats = answer(experts_per_token=plain_k())
    assert same == own
    assert plain.approx_tokens == 0
    assert (stats.approx_agreement, stats.approx_mean_kl) == (1.0, 0.0)


def plain_k():
    with open_tiny() as llm:
        return llm.plan.experts_per_token


def test_every_so_many_tokens():
    assert answer(router="gumbel", approx_check=7)[1].approx_tokens == 3
    assert answer(router="gumbel", cache_experts=2)[1].approx_tokens == 2  # auto: every 16


def test_several_sequences_are_checked_together():
    with open_tiny(router="gumbel") as llm:
        llm.generate([PROMPT[:5], PROMPT[:9], PROMPT], PARAMS)
        assert llm.stats().approx_tokens == 3 * (PARAMS.max_tokens - 1)


@pytest.mark.parametrize("settings", ASKED.values(), ids=ASKED)
def test_the_twin_is_exact(settings):
    with open_tiny() as llm:
        expected = llm.forward(PROMPT)
    with open_tiny(**settings) as llm:
        twin = exact_twin(llm._engine.model)
        hidden = twin.forward(Step.of([(twin.new_state(len(PROMPT)), PROMPT)]))
        assert_same_bits(twin.logits(hidden), expected)
        assert (llm.forward(PROMPT) != expected).any()


def test_a_check_that_is_broken_off_leaves_the_state():
    with open_tiny(router="gumbel") as llm:
        engine = llm._engine
        state = engine.model.new_state(len(PROMPT))
        engine.model.forward(Step.of([(state, PROMPT[:5])]))

        def stop(layer):
            if layer == 1:
                raise Cancelled("now")

        with pytest.raises(Cancelled):
            engine._steps._check.before([(state, PROMPT[5:6])], stop)
        assert [layer.length for layer in state.layers] == [5] * len(state.layers)


def test_the_divergence():
    exact, other = np.array([0.0, 1.0, 2.0], np.float32), np.array([0.5, 1.0, 0.0], np.float32)
    p, q = (np.exp(row) / np.exp(row).sum() for row in (exact, other))
    assert kl(exact, other) == pytest.approx((p * np.log(p / q)).sum(), rel=1e-5)
    assert kl(exact, exact) == 0


def test_cache_aware_routing_is_not_measured_by_the_cache_that_measuring_filled():
    asked = {"cache_experts": 2, "lookahead": "off", "approx_check": 1}
    stats = answer(router="cache-aware:J=0,M=8", **asked)[1]
    assert stats.experts_swapped > 0
    assert stats.approx_kl > 0


def test_the_cost_of_three_bits_is_measured_and_changes_no_token():
    """Beside any routing, with a cache that is always short of slots."""
    for routing in ({}, {"router": "gumbel"}):
        narrow = {"cache_bits": 3, "cache_experts": 2, "lookahead": "off", **routing}
        unchecked, quiet = embedded_answer(**narrow, approx_check="off")
        checked, stats = embedded_answer(**narrow)
        assert checked == unchecked
        assert (quiet.approx_tokens, stats.approx_tokens) == (0, 2)  # auto: every 16
        assert stats.approx_kl > 0
        assert stats.bytes_read == quiet.bytes_read + stats.approx_bytes_read
        assert stats.misses > quiet.misses


def embedded_answer(**settings):
    with LLM(ram="2GB", usage="off", **settings) as llm:
        return llm.generate("Once upon a time", PARAMS).token_ids, llm.stats()


def test_the_twin_of_three_bits_has_the_stored_ones():
    ids = list(range(5, 30))
    with LLM(ram="2GB", usage="off") as llm:
        expected = llm.forward(ids)
    with LLM(ram="2GB", usage="off", cache_bits=3) as llm:
        twin = llm._engine._steps._check._exact
        hidden = twin.forward(Step.of([(twin.new_state(len(ids)), ids)]))
        assert_same_bits(twin.logits(hidden), expected)
        assert (llm.forward(ids) != expected).any()


def test_the_plan_counts_the_slots_for_checking_three_bits():
    def buffers(check):
        with LLM(ram="2GB", usage="off", cache_bits=3, approx_check=check) as llm:
            stored = llm._runtime._stored
            return llm.plan.buffer_bytes, 0 if stored is None else stored.nbytes

    (without, none), (checked, more) = buffers("off"), buffers("auto")
    assert none == 0 < more == checked - without

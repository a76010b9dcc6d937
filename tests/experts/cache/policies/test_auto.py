"""`--policy auto` is decided by the ratio of slots to experts a token, in one table for all."""

import math

import pytest

from colibri import LLM, SamplingParams
from colibri.experts.cache.policies import POLICIES, auto
from colibri.experts.cache.policies.auto import BY_RATIO, resolve
from colibri.lab.replay.capacity import parse_capacities
from colibri.lab.replay.run import Wanted, replay
from colibri.routing.trace import TraceFile

SPLIT = ((1.0, "tglru"), (2.0, "slru"), (math.inf, "lru"))


def test_the_table_names_a_policy_for_every_ratio():
    ratios = [highest for highest, _ in BY_RATIO]
    assert ratios == sorted(set(ratios))
    assert ratios[-1] == math.inf
    assert {policy for _, policy in BY_RATIO} <= POLICIES.keys()


def test_what_was_chosen_by_replay():
    """docs/cache.md; a change comes with new figures there."""
    assert {resolve("auto", ratio) for ratio in (0.0, 0.25, 1.0, 2.0, 64.0)} == {"lfru"}
    assert resolve("s3fifo", 0.5) == "s3fifo"


@pytest.mark.parametrize(("slots", "policy"), [(2, "tglru"), (4, "tglru"), (8, "slru"), (9, "lru")])
def test_engine_pins_and_replay_follow_the_table(monkeypatch, tmp_path, slots, policy):
    """The embedded model takes 4 experts a token."""
    monkeypatch.setattr(auto, "BY_RATIO", SPLIT)
    path = tmp_path / "a.trace"
    few = {"ram": "2GB", "usage": "off", "lookahead": "off", "trace": str(path)}
    with LLM(cache_experts=slots, **few) as llm:
        llm.generate("Once", SamplingParams(max_tokens=8, temperature=0, ignore_eos=True))
        assert llm.plan.policy == policy
        made = {type(s.cache.pool.policy) for s in llm.experts._stages.values()}
        hits = llm.stats().hits
    assert made == {POLICIES[policy]}
    trace = TraceFile(path)
    assert trace.header.policy == policy
    names = ("auto", policy)
    rows = replay(trace, Wanted(parse_capacities(str(slots), trace.header.layers), names)).rows
    assert [(row.policy, row.resolved) for row in rows] == [("auto", policy), (policy, policy)]
    assert [row.hits for row in rows] == [hits, hits]

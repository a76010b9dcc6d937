"""What holds for every policy, and what each is for."""

from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from colibri.config.choices import PolicyName
from colibri.experts.cache.policies import POLICIES, make_policy

KEYS = 8
key = st.integers(0, KEYS - 1)
NAMES = pytest.mark.parametrize("name", POLICIES)


def test_the_setting_offers_every_policy_and_the_page_describes_it() -> None:
    assert get_args(PolicyName) == ("auto", *POLICIES)
    page = (Path(__file__).parents[4] / "docs/cache.md").read_text("utf-8")
    for name in get_args(PolicyName):
        assert f"\n| `{name}` | " in page


def anything(key):
    return True


class AnyPolicy(RuleBasedStateMachine):
    """Whatever comes, the order holds exactly those admitted and not removed, each once."""

    name = ""

    def __init__(self):
        super().__init__()
        self.policy, self.there = make_policy(self.name), set()

    @rule(keys=st.lists(key, min_size=1, unique=True))
    def demand(self, keys):
        self.policy.demand(sorted(keys))

    @rule(key=key, on_a_guess=st.booleans())
    def admit(self, key, on_a_guess):
        if key in self.there:
            return
        admit = self.policy.admit_first_to_go if on_a_guess else self.policy.admit
        admit(key)
        self.there.add(key)
        if on_a_guess:
            assert self.policy.victims(1, anything) == [key]

    @rule(key=key)
    def remove(self, key):
        self.policy.remove(key)
        self.there.discard(key)

    @rule(count=st.integers(1, KEYS + 1), busy=st.frozensets(key))
    def choose(self, count, busy):
        victims = self.policy.victims(count, lambda key: key not in busy)
        assert len(victims) == len(set(victims)) == min(count, len(self.there - busy))
        assert set(victims) <= self.there - busy

    @rule(busy=st.frozensets(key))
    def evict(self, busy):
        for victim in self.policy.victims(2, lambda key: key not in busy):
            self.policy.remove(victim)
            self.there.remove(victim)

    @invariant()
    def knows_what_is_there(self):
        assert {key for key in range(KEYS) if key in self.policy} == self.there


@NAMES
def test_any_order_of_events(name):
    machine = type("Machine", (AnyPolicy,), {"name": name})
    case = machine.TestCase
    case.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
    case().runTest()


class Looks:
    """Counts how many experts a policy looks at before it has its victims."""

    def __init__(self, busy):
        self.busy, self.count = busy, 0

    def __call__(self, key):
        self.count += 1
        return key not in self.busy


def looks_per_miss(name, slots, calls=400, wanted=8):
    """Skewed traffic over four times as many experts as there are slots."""
    policy, rng = make_policy(name), np.random.default_rng(1)
    popularity = 1.0 / np.arange(1, 4 * slots + 1)
    popularity /= popularity.sum()
    looked, missed = 0, 0
    for k in range(4 * slots, 5 * slots):  # full, of what nobody wants
        policy.demand([k])
        policy.admit(k)
    for _ in range(calls):
        union = sorted(rng.choice(4 * slots, wanted, replace=False, p=popularity).tolist())
        missing = [k for k in union if k not in policy]
        policy.demand(union)
        looks = Looks(set(union))
        victims = policy.victims(len(missing), looks)
        assert len(victims) == len(missing)
        for victim in victims:
            policy.remove(victim)
        for k in missing:
            policy.admit(k)
        looked, missed = looked + looks.count, missed + len(missing)
    return looked / missed


@NAMES
def test_a_victim_costs_the_same_whatever_the_number_of_slots(name):
    # B031: a search of all slots would look at thousands.
    few = looks_per_miss(name, 16)
    for slots in (64, 512, 4096):
        assert looks_per_miss(name, slots) < max(2 * few, 4)


def run(policy, calls, slots):
    """Hits of a sequence of sets of experts, as a cache of so many slots counts them."""
    hits = 0
    for union in calls:
        missing = [k for k in union if k not in policy]
        hits += len(union) - len(missing)
        policy.demand(union)
        free = slots - sum(k in policy for k in range(1000))
        for victim in policy.victims(max(0, len(missing) - free), lambda k, u=union: k not in u):
            policy.remove(victim)
        for k in missing:
            policy.admit(k)
    return hits


def test_segments_survive_a_scan():
    hot, scan = [[1, 2], [3], [4], [1, 2]], [[k] for k in range(10, 20)]
    calls = [*hot, *scan, [1, 2]]
    assert run(make_policy("lru"), calls, 4) == 2
    assert run(make_policy("slru"), calls, 4) == 4


def test_frequency_survives_a_scan_and_ages():
    policy = make_policy("lfru")
    scan = [[k] for k in range(10, 20)]
    calls = [[1]] * 20 + scan + [[1]]
    assert run(policy, calls, 4) == 20
    # Later others are used more: after some half-lives the old favourite is no better than they.
    for n in range(3000):
        policy.demand([500 + n % 3])
    for k in (500, 501, 502):
        policy.admit(k)
    assert 1 in policy.victims(4, anything)


def test_frequency_is_remembered_beyond_eviction():
    policy = make_policy("lfru")
    run(policy, [[1]] * 5, 2)
    policy.remove(1)
    run(policy, [[2], [3], [1]], 2)
    assert 1 in policy
    assert policy.victims(1, anything) != [1]


def test_who_comes_back_soon_is_kept_by_the_queues():
    policy = make_policy("s3fifo")
    run(policy, [[k] for k in range(6)], 4)
    assert 1 not in policy
    run(policy, [[1]], 4)  # its ghost is still there
    run(policy, [[20], [21], [22], [23]], 4)
    assert 1 in policy


def test_a_group_is_refreshed_and_goes_as_a_whole():
    policy = make_policy("tglru")
    for group in ([1, 2, 3, 4], [5, 6, 7, 8]):
        policy.demand(group)
        for k in group:
            policy.admit(k)
    policy.demand([1, 2])  # half of the first group: all of it is newer than the second now
    assert policy.victims(8, anything) == [5, 6, 7, 8, 3, 4, 1, 2]
    policy.demand([5, 9])  # a quarter of the second: the others stay old
    assert policy.victims(8, anything) == [6, 7, 8, 3, 4, 1, 2, 5]

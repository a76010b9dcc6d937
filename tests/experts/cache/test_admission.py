"""Rounds of a call that wants more experts than there are slots always come to an end."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colibri.experts.admission import Admission
from colibri.experts.cache.layer import LayerCache
from colibri.experts.cache.policies import POLICIES, make_policy
from colibri.experts.cache.pool import SlotPool

EXPERTS = 12


def walk(cache, experts, claimed, pick=min):
    """Experts of a call in ascending order, their reads ending as `pick` says; the reads begun."""
    admission = Admission(cache, experts, claimed, in_order=True)
    loading, reads = set(claimed), len(claimed)
    todo = list(experts)
    while todo:
        admitted = [expert for expert, _ in admission.admit()]
        loading.update(admitted)
        reads += len(admitted)
        if cache.in_use(todo[0]):
            cache.release([todo.pop(0)])
        elif loading:
            expert = pick(sorted(loading))
            loading.remove(expert)
            cache.landed(expert)
        else:
            admission.give_up_last(experts)
    return reads


def cache_with(slots, resident, guessed, policy="lru"):
    cache = LayerCache(EXPERTS, SlotPool(list(range(slots)), make_policy(policy)))
    for expert in resident:
        cache.demand([expert])
        assert cache.reserve([expert])
        cache.landed(expert)
        cache.release([expert])
    for expert in guessed:
        assert cache.reserve_on_a_guess(expert) is not None
    return cache


def test_guesses_on_their_way_do_not_hold_up_the_rounds():
    """The experts before them are done with, and their slots are there for those that wait."""
    cache = cache_with(7, resident=[3, 6, 7, 8], guessed=[4])
    assert walk(cache, list(range(2, 12)), {4}) == 6


@pytest.mark.parametrize("slots", range(1, 7))
@pytest.mark.parametrize("pick", [min, max])
def test_every_walk_of_six_experts_ends(slots, pick):
    """Each of them a hit, on its way on a guess, or absent."""
    experts = list(range(6))
    for states in product(["hit", "guess", "absent"], repeat=6):
        hits = [e for e in experts if states[e] == "hit"]
        guesses = [e for e in experts if states[e] == "guess"]
        if len(hits) + len(guesses) <= slots:
            cache = cache_with(slots, hits, guesses)
            assert walk(cache, experts, {*guesses}, pick) >= 6 - len(hits)


def test_hits_that_fill_the_cache_do_not_hold_up_the_last_read():
    """Those that were absent, fewer than the reads to leave room for, are all done with by then."""
    cache = cache_with(11, resident=range(1, 10), guessed=[0])
    assert walk(cache, list(range(12)), {0}) == 3


@given(data=st.data())
@pytest.mark.parametrize("policy", POLICIES)
def test_every_walk_ends(policy, data):
    order = data.draw(st.permutations(range(EXPERTS)))
    slots = data.draw(st.integers(1, EXPERTS))
    hits = data.draw(st.integers(0, slots))
    guesses = data.draw(st.integers(0, slots - hits))
    cache = cache_with(slots, order[:hits], order[hits : hits + guesses], policy)
    experts = sorted(data.draw(st.sets(st.integers(0, EXPERTS - 1), min_size=1)))
    wrong = [e for e in order[hits : hits + guesses] if e not in experts]
    for expert in wrong:
        cache.landed_on_a_guess(expert, 1)
    claimed = {*order[hits : hits + guesses]} - {*wrong}
    absent = sum(e not in order[:hits] for e in experts)
    pick = data.draw(st.sampled_from([min, max]))
    assert walk(cache, experts, claimed, pick) >= absent
    assert not any(cache.in_use(e) for e in range(EXPERTS))

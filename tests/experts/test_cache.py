import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from colibri.experts.cache import LayerCache
from colibri.experts.policies import LeastRecentlyUsed

EXPERTS = 6
anyone = st.integers(0, EXPERTS - 1)


def fill(cache, experts):
    for expert in experts:
        assert cache.reserve(expert) is not None
        cache.landed(expert)
        cache.unpin(expert)


def test_an_expert_in_use_or_in_flight_is_never_evicted():
    cache = LayerCache(EXPERTS, [10, 11], LeastRecentlyUsed())
    assert cache.reserve(0) is not None
    fill(cache, [1])
    cache.pin(1)
    assert cache.reserve(2) is None
    cache.unpin(1)
    slot = cache.slot(1)
    assert cache.reserve(2) == slot
    assert cache.reserve(3) is None
    assert not cache.resident.any()


def test_a_full_cache_gives_up_the_least_recently_used():
    cache = LayerCache(EXPERTS, [10, 11, 12], LeastRecentlyUsed())
    fill(cache, [0, 1, 2])
    cache.touch([0])
    fill(cache, [3])
    assert cache.resident.nonzero()[0].tolist() == [0, 2, 3]
    assert cache.evictions == 1


def test_recovery_frees_what_was_in_use_or_in_flight_and_keeps_what_is_resident():
    cache = LayerCache(EXPERTS, [10, 11, 12], LeastRecentlyUsed())
    for expert in (0, 1, 2):
        assert cache.reserve(expert) is not None
    cache.landed(0)
    cache.landed(1)
    cache.recover()
    assert cache.resident.nonzero()[0].tolist() == [0, 1]
    fill(cache, [3, 4, 5])
    assert cache.resident.nonzero()[0].tolist() == [3, 4, 5]


def test_shrinking_returns_slots_that_nobody_has():
    cache = LayerCache(EXPERTS, [10, 11, 12], LeastRecentlyUsed())
    fill(cache, [0, 1])
    given = cache.shrink(1)
    assert len(given) == 2
    assert cache.capacity == 1
    assert cache.slot(1) not in given
    assert cache.resident.nonzero()[0].tolist() == [1]


def test_an_expert_that_landed_on_a_guess_goes_first_until_used():
    cache = LayerCache(EXPERTS, [10, 11, 12], LeastRecentlyUsed())
    fill(cache, [0])
    for expert in (1, 2):
        assert cache.reserve(expert) is not None
        cache.landed_on_a_guess(expert, 100 * expert)
    assert not cache.is_proven(2)
    cache.touch([2])
    assert cache.is_proven(2)
    fill(cache, [3, 4])
    assert cache.resident.nonzero()[0].tolist() == [2, 3, 4]
    assert (cache.guesses_useful, cache.guesses_wasted_bytes) == (1, 100)


def test_what_is_to_be_kept_is_not_evicted():
    cache = LayerCache(EXPERTS, [10, 11], LeastRecentlyUsed())
    fill(cache, [0, 1])
    assert cache.reserve(2, keep={0, 1}) is None
    assert cache.reserve(2, keep={0}) is not None
    assert cache.resident.nonzero()[0].tolist() == [0]


class CacheMachine(RuleBasedStateMachine):
    """Any order of events keeps: a slot has one owner or none, pins and reads keep theirs."""

    def __init__(self):
        super().__init__()
        self.cache = LayerCache(EXPERTS, [20, 21, 22], LeastRecentlyUsed())
        self.pins = [0] * EXPERTS
        self.held = {}  # slots that must not move: loading or pinned
        self.guesses = {"landed": 0, "useful": 0}

    def owned(self, expert):
        return self.cache.resident[expert] or self.cache.is_loading(expert)

    @rule(expert=anyone)
    def reserve(self, expert):
        if self.owned(expert):
            return
        slot = self.cache.reserve(expert)
        assert slot not in self.held.values()
        assert (slot is None) == (len(self.held) == self.cache.capacity)
        if slot is not None:
            self.held[expert] = slot

    @rule(expert=anyone, keep=st.frozensets(anyone))
    def reserve_on_a_guess(self, expert, keep):
        if self.owned(expert):
            return
        kept = [e for e in keep if self.cache.resident[e]]
        slot = self.cache.reserve(expert, keep)
        assert all(self.cache.resident[kept])
        assert slot not in self.held.values()
        assert (slot is None) == (len(self.held.keys() | set(kept)) == self.cache.capacity)
        if slot is not None:
            self.held[expert] = slot

    @rule(expert=anyone)
    def land_on_a_guess(self, expert):
        if self.cache.is_loading(expert):
            self.cache.landed_on_a_guess(expert, 1)
            self.guesses["landed"] += 1
            del self.held[expert]

    @rule(expert=anyone)
    def touch(self, expert):
        if self.cache.resident[expert]:
            self.guesses["useful"] += not self.cache.is_proven(expert)
            self.cache.touch([expert])
            assert self.cache.is_proven(expert)

    @rule(expert=anyone)
    def land(self, expert):
        if self.cache.is_loading(expert):
            self.cache.landed(expert)
            self.pins[expert] = 1

    @rule(expert=anyone)
    def fail(self, expert):
        if self.cache.is_loading(expert):
            self.cache.drop(expert)
            del self.held[expert]

    @rule(expert=anyone)
    def pin(self, expert):
        if self.cache.resident[expert]:
            self.cache.pin(expert)
            self.pins[expert] += 1
            self.held[expert] = self.cache.slot(expert)

    @rule(expert=anyone)
    def unpin(self, expert):
        if self.pins[expert]:
            self.cache.unpin(expert)
            self.pins[expert] -= 1
            if not self.pins[expert]:
                del self.held[expert]

    @rule()
    def recover(self):
        resident = self.cache.resident.copy()
        self.cache.recover()
        assert (self.cache.resident == resident).all()
        self.pins, self.held = [0] * EXPERTS, {}

    @precondition(lambda self: not self.held)
    @rule(capacity=st.integers(1, 3))
    def resize(self, capacity):
        given = self.cache.shrink(capacity)
        assert self.cache.capacity <= capacity
        self.cache.grow(given)

    @precondition(lambda self: not self.held)
    @rule()
    def clear(self):
        self.cache.clear()
        assert not self.cache.resident.any()

    @invariant()
    def slots_have_one_owner(self):
        slots = [self.cache.slot(e) for e in range(EXPERTS) if self.owned(e)]
        assert len(set(slots)) == len(slots) <= self.cache.capacity
        for expert, slot in self.held.items():
            assert self.cache.slot(expert) == slot
        assert self.cache.complete == bool(self.cache.resident.all())

    @invariant()
    def a_guess_is_unproven_useful_or_wasted(self):
        unproven = sum(
            self.cache.resident[e] and not self.cache.is_proven(e) for e in range(EXPERTS)
        )
        assert self.cache.guesses_useful == self.guesses["useful"]
        wasted = self.cache.guesses_wasted_bytes
        assert unproven + self.guesses["useful"] + wasted == self.guesses["landed"]


TestCacheMachine = CacheMachine.TestCase
TestCacheMachine.settings = settings(max_examples=30, stateful_step_count=40, deadline=None)


@pytest.mark.parametrize("size", [8, 4096])
def test_the_choice_of_a_victim_does_not_search(size):
    policy, asked = LeastRecentlyUsed(), []
    for expert in range(size):
        policy.admit(expert)
    in_use = [1, 5, 6]
    for expert in in_use:
        policy.touch(expert)

    def evictable(expert):
        asked.append(expert)
        return expert not in in_use

    assert policy.victim(evictable) == 0
    assert len(asked) == 1


def test_asking_for_the_slot_of_an_absent_expert_is_a_bug():
    cache = LayerCache(EXPERTS, [1], LeastRecentlyUsed())
    with pytest.raises(AssertionError):
        cache.slot(0)

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from colibri.experts.cache.layer import LayerCache
from colibri.experts.cache.policies import LeastRecentlyUsed
from colibri.experts.cache.pool import SlotPool

EXPERTS = 6
anyone = st.integers(0, EXPERTS - 1)


def make(*slots):
    return LayerCache(EXPERTS, SlotPool(list(slots), LeastRecentlyUsed()))


def reserve(cache, expert):
    """A slot for a demanded expert, or None."""
    cache.demand([expert])
    return next(iter(cache.reserve([expert])), None)


def fill(cache, experts):
    for expert in experts:
        assert reserve(cache, expert) is not None
        cache.landed(expert)
        cache.release([expert])


def resident(cache):
    return cache.resident.nonzero()[0].tolist()


def test_an_expert_in_use_or_in_flight_is_never_evicted():
    cache = make(10, 11)
    assert reserve(cache, 0) is not None
    fill(cache, [1])
    cache.use([1])
    assert reserve(cache, 2) is None
    cache.release([1])
    slot = cache.slot(1)
    assert reserve(cache, 2) == slot
    assert reserve(cache, 3) is None
    assert not cache.resident.any()


def test_an_expert_in_use_loses_its_slot_to_no_layer_of_the_pool():
    pool = SlotPool([10, 11], LeastRecentlyUsed())
    first, second = LayerCache(EXPERTS, pool), LayerCache(EXPERTS, pool)
    fill(first, [0, 1])
    first.use([0, 1])
    assert second.reserve_on_a_guess(3) is None
    assert second.reserve([4]) == []
    with pytest.raises(AssertionError, match="expert 1 is in use"):
        pool.give_up(first.key(1))
    first.release([1])
    assert second.reserve_on_a_guess(3) is not None
    assert resident(first) == [0]


def test_a_full_cache_gives_up_the_least_recently_used():
    cache = make(10, 11, 12)
    fill(cache, [0, 1, 2])
    cache.demand([0])
    fill(cache, [3])
    assert resident(cache) == [0, 2, 3]
    assert cache.evictions == 1


def test_the_order_is_that_of_demands_and_not_of_landing():
    cache = make(10, 11)
    cache.reserve([0, 1])
    for expert in (1, 0):
        cache.landed(expert)
        cache.release([expert])
    fill(cache, [2])
    assert resident(cache) == [1, 2]


def test_recovery_frees_what_was_in_use_or_in_flight_and_keeps_what_is_resident():
    cache = make(10, 11, 12)
    cache.reserve([0, 1, 2])
    cache.landed(0)
    cache.landed(1)
    cache.pool.recover()
    assert resident(cache) == [0, 1]
    fill(cache, [3, 4, 5])
    assert resident(cache) == [3, 4, 5]


def test_shrinking_returns_slots_that_nobody_has():
    cache = make(10, 11, 12)
    fill(cache, [0, 1])
    given = cache.pool.shrink(1)
    assert len(given) == 2
    assert cache.pool.capacity == 1
    assert cache.slot(1) not in given
    assert resident(cache) == [1]


def test_an_expert_that_landed_on_a_guess_goes_first_until_used():
    cache = make(10, 11, 12)
    fill(cache, [0])
    for expert in (1, 2):
        assert cache.reserve_on_a_guess(expert) is not None
        cache.landed_on_a_guess(expert, 100 * expert)
    assert not cache.is_proven(2)
    cache.demand([2])
    assert cache.is_proven(2)
    fill(cache, [3, 4])
    assert resident(cache) == [2, 3, 4]
    assert (cache.guesses_useful, cache.guesses_wasted_bytes) == (1, 100)


def test_what_is_to_be_kept_is_not_evicted():
    cache = make(10, 11)
    fill(cache, [0, 1])
    assert cache.reserve_on_a_guess(2, keep={0, 1}) is None
    assert cache.reserve_on_a_guess(2, keep={0}) is not None
    assert resident(cache) == [0]


def test_a_held_expert_stays_and_leaves_the_others_a_slot():
    cache = make(10, 11, 12)
    assert cache.hold(4)  # before it has a slot
    fill(cache, [0, 4])
    assert cache.hold(0)
    assert not cache.hold(5)
    fill(cache, [1, 2, 3])
    assert resident(cache) == [0, 3, 4]
    cache.unhold(4)
    fill(cache, [1, 2])
    assert resident(cache) == [0, 1, 2]


def test_shrinking_holds_fewer_when_it_must():
    cache = make(10, 11, 12, 13)
    fill(cache, [0, 1, 2, 3])
    for expert in (2, 0, 1):
        assert cache.hold(expert)
    assert len(cache.pool.shrink(2)) == 2
    assert len(resident(cache)) == 2
    assert cache.held(2)
    assert not cache.held(1)
    assert cache.pool.movable == 1


def test_layers_of_a_pool_take_slots_from_each_other():
    pool = SlotPool([10, 11], LeastRecentlyUsed())
    first, second = LayerCache(EXPERTS, pool), LayerCache(EXPERTS, pool)
    fill(first, [0, 1])
    fill(second, [0])
    assert (resident(first), resident(second)) == ([1], [0])
    assert (first.evictions, second.evictions) == (1, 0)
    # To keep an expert is to keep it of one layer only.
    assert first.reserve_on_a_guess(5, keep={0, 1}) is not None
    assert (resident(first), resident(second)) == ([1], [])


class CacheMachine(RuleBasedStateMachine):
    """Whatever the order of events, a slot has one owner or none, and an expert that is in use or
    being read keeps its slot."""

    def __init__(self):
        super().__init__()
        self.cache = make(20, 21, 22)
        self.uses = [0] * EXPERTS
        self.held = {}  # slots that must not move: loading or in use
        self.for_good = set()
        self.guesses = {"landed": 0, "useful": 0}

    def owned(self, expert):
        return self.cache.resident[expert] or self.cache.is_loading(expert)

    def fixed(self):
        """Experts with slots that must not move."""
        return self.held.keys() | {e for e in self.for_good if self.owned(e)}

    @rule(expert=anyone)
    def hold(self, expert):
        if self.cache.hold(expert):
            self.for_good.add(expert)
        else:
            assert len(self.for_good) == self.cache.pool.capacity - 1

    @rule(expert=anyone)
    def unhold(self, expert):
        self.cache.unhold(expert)
        self.for_good.discard(expert)

    @rule(expert=anyone)
    def reserve(self, expert):
        if self.owned(expert):
            return
        full = len(self.fixed()) == self.cache.pool.capacity
        slot = reserve(self.cache, expert)
        assert slot not in self.held.values()
        assert (slot is None) == full
        if slot is not None:
            self.held[expert] = slot

    @rule(expert=anyone, keep=st.frozensets(anyone))
    def reserve_on_a_guess(self, expert, keep):
        if self.owned(expert):
            return
        kept = [e for e in keep if self.cache.resident[e]]
        full = len(self.fixed() | set(kept)) == self.cache.pool.capacity
        slot = self.cache.reserve_on_a_guess(expert, keep)
        assert all(self.cache.resident[kept])
        assert slot not in self.held.values()
        assert (slot is None) == full
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
            self.cache.demand([expert])
            assert self.cache.is_proven(expert)

    @rule(expert=anyone)
    def land(self, expert):
        if self.cache.is_loading(expert):
            self.cache.claim(expert)  # as a call does with what was read on a guess
            self.cache.landed(expert)
            self.uses[expert] = 1

    @rule(expert=anyone)
    def fail(self, expert):
        if self.cache.is_loading(expert):
            self.cache.drop(expert)
            del self.held[expert]

    @rule(expert=anyone)
    def use(self, expert):
        if self.cache.resident[expert]:
            self.cache.use([expert])
            self.uses[expert] += 1
            self.held[expert] = self.cache.slot(expert)

    @rule(expert=anyone)
    def release(self, expert):
        if self.uses[expert]:
            self.cache.release([expert])
            self.uses[expert] -= 1
            if not self.uses[expert]:
                del self.held[expert]

    @rule()
    def recover(self):
        resident = self.cache.resident.copy()
        self.cache.pool.recover()
        assert (self.cache.resident == resident).all()
        self.uses, self.held = [0] * EXPERTS, {}

    @precondition(lambda self: not self.held)
    @rule(capacity=st.integers(1, 3))
    def resize(self, capacity):
        given = self.cache.pool.shrink(capacity)
        assert self.cache.pool.capacity <= capacity
        self.for_good = {e for e in self.for_good if self.cache.held(e)}
        assert len(self.for_good) < capacity
        self.cache.pool.grow(given)

    @precondition(lambda self: not self.held)
    @rule()
    def clear(self):
        self.cache.clear()
        assert not self.cache.resident.any()

    @invariant()
    def slots_have_one_owner(self):
        slots = [self.cache.slot(e) for e in range(EXPERTS) if self.owned(e)]
        assert len(set(slots)) == len(slots) <= self.cache.pool.capacity
        for expert, slot in self.held.items():
            assert self.cache.slot(expert) == slot
        assert all(self.cache.held(e) for e in self.for_good)
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


def test_asking_for_the_slot_of_an_absent_expert_is_a_bug():
    cache = make(1)
    with pytest.raises(AssertionError):
        cache.slot(0)

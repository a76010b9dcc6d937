"""States are used again, and together never take more than the context."""

import numpy as np
import pytest

from colibri.kvcache.held import Held
from colibri.kvcache.kv import KVCache
from colibri.kvcache.memory import untouched
from colibri.kvcache.pool import StatePool
from colibri.kvcache.sequence import SequenceState

CONTEXT = 1000


@pytest.fixture
def pool() -> StatePool:
    return StatePool(new_state, CONTEXT)


def new_state(capacity: int) -> SequenceState:
    return SequenceState([KVCache(capacity, 2, 4), KVCache(capacity, 1, 4)])


def use(held: Held, tokens: int, first: int = 0) -> Held:
    """A step of so many tokens: first, first + 1, ..."""
    held.reach(held.state.length + tokens)
    for layer, heads in zip(held.state.layers, (2, 1), strict=True):
        rows = np.arange(first, first + tokens, dtype=np.float32)
        block = np.repeat(rows, heads * 4).reshape(tokens, heads, 4)
        layer.append(block, block)  # type: ignore[attr-defined]
    held.extend(range(first, first + tokens))
    return held


def prompt(*parts: range) -> np.ndarray:
    return np.concatenate([np.array(part, np.int32) for part in parts])


def assert_holds(held: Held, tokens: list[int]) -> None:
    """The state's rows are those of these tokens."""
    assert len(held) == held.state.length == len(tokens)
    for layer in held.state.layers:
        assert layer.keys[:, 0, 0].tolist() == tokens  # type: ignore[attr-defined]


def test_a_state_that_is_not_kept_comes_back_empty_and_is_used_again(pool: StatePool) -> None:
    first = use(pool.take(200), 150)
    pool.give_back(first, keep=False)
    again = pool.take(180)
    assert again is first
    assert (again.state.length, len(again), again.taken) == (0, 0, 150)
    assert pool.take(100) is not first


def test_room_is_what_was_touched_or_promised(pool: StatePool) -> None:
    assert pool.has_room(CONTEXT)
    held = use(pool.take(600), 10)
    assert pool.has_room(400)
    assert not pool.has_room(401)
    pool.give_back(held)
    assert pool.has_room(CONTEXT)


def test_a_large_state_does_not_keep_small_sequences_out(pool: StatePool) -> None:
    pool.give_back(use(pool.take(900), 900), keep=False)
    small = [pool.take(100) for _ in range(5)]
    assert pool.has_room(500)
    assert all(held.taken == 0 for held in small)


def test_states_never_take_more_than_there_is(pool: StatePool) -> None:
    rng = np.random.default_rng(0)
    lent: list[Held] = []
    found = 0
    for _ in range(800):
        tokens = int(rng.integers(2, 600))
        wish = prompt(range(int(rng.integers(0, 3)), 900))[:tokens]
        if pool.has_room(tokens):
            match = pool.match(wish, tokens - 1)
            held = pool.take(tokens, match)
            found += match is not None
            assert_holds(held, wish[: len(held)].tolist())
            rest = int(rng.integers(0, tokens - len(held) + 1))
            held.reach(len(held) + rest)
            pool.make_room()
            if rest:
                use(held, rest, int(wish[0]) + len(held))
            lent.append(held)
        elif lent:
            pool.give_back(lent.pop(int(rng.integers(len(lent)))), keep=bool(rng.integers(4)))
        assert pool._taken() <= CONTEXT
        assert sum(held.room for held in lent) <= CONTEXT
    assert found > 100


def test_a_prompt_goes_on_from_the_longest_beginning(pool: StatePool) -> None:
    for stop, first in ((30, 0), (50, 0), (40, 7)):
        pool.give_back(use(pool.take(60), stop, first))
    match = pool.match(prompt(range(0, 45), range(90, 99)), 53)
    assert match is not None
    assert (match.length, match.shared) == (45, 45)
    held = pool.take(100, match)
    assert_holds(held, list(range(45)))
    assert pool.kept_tokens == 30 + 50 + 40  # a branch leaves what it came from
    assert pool.match(prompt(range(1, 45)), 43) is None
    assert pool.match(prompt(range(0, 20)), 19).length == 19


def test_the_end_of_a_kept_sequence_is_gone_on_from_without_a_copy(pool: StatePool) -> None:
    kept = use(pool.take(60), 50)
    pool.give_back(kept)
    held = pool.take(100, pool.match(prompt(range(0, 80)), 79))
    assert held is kept
    assert_holds(held, list(range(50)))
    assert pool.kept_tokens == 0


def test_a_running_sequence_is_copied(pool: StatePool) -> None:
    first = use(pool.take(100), 80)
    held = pool.take(100, pool.match(prompt(range(0, 60), range(0, 9)), 68))
    assert held is not first
    use(held, 5, 200)
    assert_holds(held, [*range(60), *range(200, 205)])
    assert_holds(first, list(range(80)))


def test_where_two_have_no_room_the_kept_one_is_taken_over(pool: StatePool) -> None:
    kept = use(pool.take(900), 800)
    pool.give_back(kept)
    held = pool.take(900, pool.match(prompt(range(0, 600), range(0, 9)), 608))
    assert held is kept
    assert_holds(held, list(range(600)))


def test_of_several_that_begin_alike_one_is_copied_that_has_room_beside_it(pool: StatePool) -> None:
    """The oldest would have to stay for a copy, with all that was used after it; and it has taken
    too much to be gone on in. What a prompt shares with all of them was then computed again."""
    alike = range(200)
    pool.give_back(use(pool.take(500), 500))
    for last in (700, 800):
        match = pool.match(prompt(alike, range(last, last + 50)), 249)
        held = pool.take(250, match)
        pool.give_back(use(held, 50, last))
    match = pool.match(prompt(alike, range(900, 950)), 249)
    assert match is not None
    assert match.length == 200
    assert_holds(pool.take(250, match), list(alike))


def test_the_least_recently_used_goes_first(pool: StatePool) -> None:
    for first in (0, 1000, 2000):
        pool.give_back(use(pool.take(300), 300, first))
    pool.give_back(pool.take(310, pool.match(prompt(range(0, 310)), 309)))  # used again
    running = pool.take(400)
    running.reach(350)
    pool.make_room()
    kept = [pool.match(prompt(range(first, first + 300)), 299) for first in (0, 1000, 2000)]
    assert [match is not None for match in kept] == [True, False, True]


def test_an_answer_that_may_be_long_drives_nothing_out_before_it_is(pool: StatePool) -> None:
    pool.give_back(use(pool.take(300), 300))
    held = pool.take(CONTEXT, surely=100)
    held.reach(700)
    pool.make_room()
    assert pool.kept_tokens == 300
    held.reach(701)
    pool.make_room()
    assert pool.kept_tokens == 0


def test_nothing_is_kept_where_nothing_shall_be() -> None:
    pool = StatePool(new_state, CONTEXT, keep=False)
    pool.give_back(use(pool.take(60), 50))
    assert pool.kept_tokens == 0
    assert pool.match(prompt(range(0, 80)), 79) is None


def test_room_beside_the_context_is_for_what_is_kept() -> None:
    pool = StatePool(new_state, CONTEXT, beside=500)
    pool.give_back(use(pool.take(500), 500))
    held = pool.take(CONTEXT)
    assert not pool.has_room(1)
    held.reach(CONTEXT)
    pool.make_room()
    assert pool.kept_tokens == 500


def test_what_a_state_costs_whatever_its_length_counts_as_positions() -> None:
    """One such state goes beside the context; every further one takes its share of it."""
    pool = StatePool(new_state, CONTEXT, 300)
    assert pool.has_room(CONTEXT)
    first = pool.take(200)
    assert pool.has_room(500)
    assert not pool.has_room(501)
    second = use(pool.take(100), 100)
    assert pool.has_room(100)
    assert not pool.has_room(101)
    pool.give_back(first)
    pool.give_back(second)
    held = pool.take(900, pool.match(prompt(range(0, 200)), 199))
    assert held is second
    use(held, 790, 100)
    pool.make_room()
    assert not pool._idle  # the other one would not fit beside it


def test_large_buffers_are_whole_and_writable() -> None:
    buffer = untouched((1 << 20, 3))
    assert buffer.shape == (1 << 20, 3)
    buffer[-1] = 7.0
    assert buffer[-1].tolist() == [7.0, 7.0, 7.0]
    assert untouched((4, 2)).shape == (4, 2)

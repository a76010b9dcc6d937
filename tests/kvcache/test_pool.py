"""States are used again, and together never take more than the context."""

import numpy as np
import pytest

from colibri.kvcache.kv import KVCache
from colibri.kvcache.memory import untouched
from colibri.kvcache.pool import StatePool
from colibri.kvcache.sequence import SequenceState

CONTEXT = 1000


@pytest.fixture
def pool() -> StatePool:
    return StatePool(lambda n: SequenceState([KVCache(n, 2, 4), KVCache(n, 1, 4)]), CONTEXT)


def use(state: SequenceState, tokens: int) -> SequenceState:
    for layer, heads in zip(state.layers, (2, 1), strict=True):
        rows = np.ones((tokens, heads, 4), np.float32)
        layer.append(rows, rows)  # type: ignore[attr-defined]
    return state


def test_a_state_comes_back_empty_and_is_used_again(pool: StatePool) -> None:
    first = use(pool.take(200), 150)
    pool.give_back(first)
    again = pool.take(180)
    assert again is first
    assert (again.length, again.touched) == (0, 150)
    assert pool.take(100) is not first


def test_room_is_what_was_touched_or_promised(pool: StatePool) -> None:
    assert pool.has_room(CONTEXT)
    state = use(pool.take(600), 10)
    assert pool.has_room(400)
    assert not pool.has_room(401)
    pool.give_back(state)
    assert pool.has_room(CONTEXT)


def test_a_large_state_does_not_keep_small_sequences_out(pool: StatePool) -> None:
    pool.give_back(use(pool.take(900), 900))
    small = [pool.take(100) for _ in range(5)]
    assert pool.has_room(500)
    assert all(state.touched == 0 for state in small)


def test_idle_states_make_room(pool: StatePool) -> None:
    rng = np.random.default_rng(0)
    lent: list[SequenceState] = []
    for _ in range(500):
        tokens = int(rng.integers(1, 600))
        if pool.has_room(tokens):
            lent.append(use(pool.take(tokens), int(rng.integers(0, tokens + 1))))
        elif lent:
            pool.give_back(lent.pop(int(rng.integers(len(lent)))))
        idle = [entry.state.touched for entry in pool._idle]
        held = sum(entry.room for entry in pool._lent) + sum(idle)
        assert held <= CONTEXT + max(idle, default=0)


def test_what_a_state_costs_whatever_its_length_counts_as_positions() -> None:
    """One such state goes beside the context; every further one takes its share of it."""
    pool = StatePool(lambda n: SequenceState([KVCache(n, 2, 4), KVCache(n, 1, 4)]), CONTEXT, 300)
    assert pool.has_room(CONTEXT)
    first = pool.take(200)
    assert pool.has_room(500)
    assert not pool.has_room(501)
    second = use(pool.take(100), 100)
    assert pool.has_room(100)
    assert not pool.has_room(101)
    pool.give_back(first)
    pool.give_back(second)
    assert pool.take(900) is second
    assert not pool._idle  # the other one would not fit beside it


def test_large_buffers_are_whole_and_writable() -> None:
    buffer = untouched((1 << 20, 3))
    assert buffer.shape == (1 << 20, 3)
    buffer[-1] = 7.0
    assert buffer[-1].tolist() == [7.0, 7.0, 7.0]
    assert untouched((4, 2)).shape == (4, 2)

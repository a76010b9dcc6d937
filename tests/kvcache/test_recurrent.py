"""A recurrent state cannot be cut back, so a checkpoint must keep it, whatever comes after."""

import gc
from typing import Any

import numpy as np
import pytest

from colibri.kernels.delta import DeltaRule, DeltaShape
from colibri.kvcache.recurrent import RecurrentState

SHAPE = DeltaShape(heads=2, key_heads=1, key_dim=8, value_dim=8, taps=3)


@pytest.fixture
def feed() -> Any:
    """feed(state, seed, tokens): so many random tokens through the state."""
    rng = np.random.default_rng(0)

    def some(*shape: int) -> Any:
        return rng.standard_normal(shape, np.float32)

    rule = DeltaRule(SHAPE, some(3, SHAPE.channels), some(2), some(2), some(8), eps=1e-6, silu=True)

    def feed(state: RecurrentState, seed: int, tokens: int = 1) -> None:
        rows = np.random.default_rng(seed)
        qkv, gate, beta, z = (
            rows.standard_normal((tokens, n), np.float32) for n in (SHAPE.channels, 2, 2, 16)
        )
        before, after = state.advance(tokens)
        rule([qkv], gate, beta, z, [tokens], [before], [after])

    return feed


def copy(state: RecurrentState) -> list[Any]:
    return [state.length, *(part.copy() for part in state.state)]


def assert_is(state: RecurrentState, kept: list[Any]) -> None:
    assert state.length == kept[0]
    for got, want in zip(state.state, kept[1:], strict=True):
        np.testing.assert_array_equal(got, want)


def test_checkpoints_are_exact_in_any_order(feed: Any) -> None:
    state = RecurrentState(SHAPE)
    saved = []
    for seed in range(5):
        saved.append((state.checkpoint(), copy(state)))
        feed(state, seed, 1 + seed)
    for checkpoint, kept in [*saved, *reversed(saved)]:
        state.restore(checkpoint)
        assert_is(state, kept)
        feed(state, 99, 2)
        state.restore(checkpoint)
        assert_is(state, kept)
    assert state.touched == 15


def test_nothing_remembered_is_zero_and_comes_back(feed: Any) -> None:
    state = RecurrentState(SHAPE)
    fresh = state.checkpoint()
    assert not any(part.any() for part in state.state)
    feed(state, 1, 3)
    first = copy(state)
    state.restore(fresh)
    assert (state.length, any(part.any() for part in state.state)) == (0, False)
    feed(state, 1, 3)
    assert_is(state, first)


def test_a_checkpoint_a_step_takes_the_memory_twice_and_no_more(feed: Any) -> None:
    state, addresses = RecurrentState(SHAPE), set()
    for seed in range(6):
        checkpoint = state.checkpoint()
        feed(state, seed)
        addresses.add(state.state[1].ctypes.data)
        if seed == 3:
            state.restore(checkpoint)
            feed(state, seed)
            addresses.add(state.state[1].ctypes.data)
        del checkpoint
    gc.collect()
    assert len(addresses) == 2
    one = SHAPE.state_bytes // 2
    assert state.nbytes == one


def test_without_a_checkpoint_it_is_written_in_place(feed: Any) -> None:
    state = RecurrentState(SHAPE)
    feed(state, 1)
    address = state.state[1].ctypes.data
    feed(state, 2)
    assert state.state[1].ctypes.data == address


def test_it_cannot_be_truncated(feed: Any) -> None:
    state = RecurrentState(SHAPE)
    feed(state, 1, 3)
    state.truncate(3)
    with pytest.raises(IndexError, match="restore a checkpoint"):
        state.truncate(2)

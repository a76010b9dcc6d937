"""Tokens beside their state; where it cannot be cut, checkpoints at places."""

from typing import Any

import numpy as np
import pytest

from colibri.kernels.delta import DeltaRule, DeltaShape
from colibri.kvcache.held import MOST_MARKS, Held, common
from colibri.kvcache.kv import KVCache
from colibri.kvcache.latent import LatentCache
from colibri.kvcache.pool import StatePool
from colibri.kvcache.recurrent import RecurrentState
from colibri.kvcache.sequence import SequenceState
from colibri.layers.delta import DeltaCore
from colibri.layers.step import Step

SHAPE = DeltaShape(heads=2, key_heads=1, key_dim=8, value_dim=8, taps=3)
TOKENS = list(range(100, 160))


@pytest.fixture(scope="module")
def core() -> DeltaCore:
    rng = np.random.default_rng(0)

    def some(*shape: int) -> Any:
        return rng.standard_normal(shape, np.float32)

    rule = DeltaRule(SHAPE, some(3, SHAPE.channels), some(2), some(2), some(8), eps=1e-6, silu=True)
    return DeltaCore(0, rule)


def feed(core: DeltaCore, helds: list[Held], counts: list[int], marks: Any = None) -> Any:
    """The next so many of TOKENS through each state, in one step; what came out."""
    parts = []
    for held, count in zip(helds, counts, strict=True):
        at = held.state.length
        parts.append((held.state, TOKENS[at : at + count]))
    step = Step.of(parts, marks=marks)
    rows = [np.random.default_rng(t).standard_normal(SHAPE.channels + 20) for t in step.token_ids]
    data = np.array(rows, np.float32)
    cuts = np.cumsum([SHAPE.channels, 2, 2])
    qkv, gate, beta, z = (np.ascontiguousarray(x) for x in np.split(data, cuts, axis=1))
    out = core([qkv], gate, beta, z, step)
    for held, (_, ids) in zip(helds, parts, strict=True):
        held.extend(ids)
    return out


def held() -> Held:
    return Held(SequenceState([RecurrentState(SHAPE)]))


def bits(held: Held) -> list[Any]:
    return [part.copy() for layer in held.state.layers for part in layer.state]


def test_a_step_keeps_the_states_that_it_was_asked_for(core: DeltaCore) -> None:
    """With the bits of a walk that stopped there, whatever else is in the step."""
    want, one = {}, held()
    for _ in range(30):
        feed(core, [one], [1])
        want[one.state.length] = bits(one)
    a, b = held(), held()
    whole = feed(core, [a, b], [20, 30], marks=[[7, 11], []])
    a.keep(7)
    a.keep(11)
    plain = feed(core, [held(), held()], [20, 30])
    np.testing.assert_array_equal(whole, plain)
    for place, state in ((20, a), (30, b)):
        for got, expected in zip(bits(state), want[place], strict=True):
            np.testing.assert_array_equal(got, expected)
    feed(core, [a], [5])
    for place in (11, 7):
        assert a.usable(place + 2) == place
        a.rewind(place, place)
        for got, expected in zip(bits(a), want[place], strict=True):
            np.testing.assert_array_equal(got, expected)
        assert (len(a), a.state.length) == (place, place)
        feed(core, [a], [3])
    assert a.usable(6) == 0


def test_a_copy_and_its_source_go_on_apart(core: DeltaCore) -> None:
    source, copy = held(), held()
    feed(core, [source], [20], marks=[[9]])
    source.keep(9)
    before = bits(source)
    copy.copy_from(source, 9, 9)
    assert len(copy) == 9
    feed(core, [copy], [4])
    again = held()
    feed(core, [again], [13])
    for got, expected in zip(bits(copy), bits(again), strict=True):
        np.testing.assert_array_equal(got, expected)
    for got, expected in zip(bits(source), before, strict=True):
        np.testing.assert_array_equal(got, expected)
    del source
    feed(core, [copy], [4])


def test_checkpoints_thin_where_they_cost_least(core: DeltaCore) -> None:
    state = held()
    for count in [1, 1, *[6] * (MOST_MARKS - 1)]:
        feed(core, [state], [count])
        state.keep(state.state.length)
    assert len(state.marks) == MOST_MARKS
    assert sorted(state.marks)[:2] == [2, 8]
    state.thin()
    assert sorted(state.marks)[:2] == [8, 14]


def test_a_pool_counts_checkpoints_as_memory(core: DeltaCore) -> None:
    def new_state(capacity: int) -> SequenceState:
        return SequenceState([RecurrentState(SHAPE)])

    pool = StatePool(new_state, 100, overhead=20)
    first = pool.take(30)
    first.reach(30, marks=3)
    assert pool.make_room()
    feed(core, [first], [30], marks=[[10, 20]])
    for place in (10, 20, 30):
        first.keep(place)
    pool.give_back(first)
    assert pool._taken() == 30 + 20 + 3 * 10
    second = pool.take(60, surely=20)
    for reach, left in ((20, [10, 20, 30]), (30, [20, 30]), (40, [20])):
        second.reach(reach)
        assert pool.make_room()
        assert sorted(first.marks) == left
    assert pool.kept_tokens == 30
    second.reach(60)
    assert pool.make_room()
    assert pool.kept_tokens == 0
    second.reach(100, marks=3)
    assert not pool.make_room()


@pytest.mark.parametrize(
    "cache", [lambda: KVCache(40, 2, 4), lambda: LatentCache(40, 6, 2, 3)], ids=["kv", "latent"]
)
def test_rows_are_copied_up_to_a_length(cache: Any) -> None:
    source, copy = cache(), cache()
    rng = np.random.default_rng(3)
    shapes = [part.shape[1:] for part in source.state]
    source.append(*(rng.standard_normal((20, *shape), np.float32) for shape in shapes))
    copy.append(*(rng.standard_normal((9, *shape), np.float32) for shape in shapes))
    copy.copy_from(source, source.checkpoint_at(15))
    assert (copy.length, copy.touched) == (15, 15)
    for mine, theirs in zip(copy.state, source.state, strict=True):
        np.testing.assert_array_equal(mine, theirs[:15])


def test_what_begins_alike() -> None:
    a = np.array([1, 2, 3, 4], np.int32)
    for n in range(5):
        b = a.copy()
        b[n:] = 9
        assert common(a, b) == n
    assert common(a[:0], a[:0]) == 0

import numpy as np
import pytest
from bits import assert_same, everywhere, normal
from hypothesis import given, settings
from hypothesis import strategies as st

from colibri import _native
from colibri.kernels.attention import index_scores_select, pool_keys, selected
from colibri.kernels.reference import ops as ref


def whole_numbers(seed: int, *shape: int):
    """Small integers: every sum is exact, and scores tie often."""
    return np.random.default_rng(seed).integers(-2, 3, shape).astype(np.float32)


@settings(max_examples=30, deadline=None)
@given(
    rows=st.integers(1, 5),
    keys=st.integers(1, 700),
    heads=st.sampled_from([1, 3, 8, 13]),
    dim=st.sampled_from([1, 8, 16, 40]),
    topk=st.sampled_from([1, 7, 64, 300]),
    pool=st.sampled_from([1, 3, 4]),
    seed=st.integers(0, 999),
)
def test_matches_the_reference_with_many_ties(rows, keys, heads, dim, topk, pool, seed):
    iq, ik = whole_numbers(seed, rows, heads, dim), whole_numbers(seed + 1, keys, dim)
    w = whole_numbers(seed + 2, rows, heads)
    positions = np.random.default_rng(seed).integers(0, keys * pool + pool - 1, rows)
    topk = max(topk, pool)
    got = everywhere(lambda: index_scores_select(iq, w, ik, positions, topk, pool))
    np.testing.assert_array_equal(got, ref.index_scores_select(iq, w, ik, positions, topk, pool))


def test_real_scores_match_the_reference_on_every_path():
    iq, w, ik = normal(1, 20, 16, 64), normal(2, 20, 16), normal(3, 900, 64)
    positions = np.arange(20) * 45
    got = everywhere(lambda: index_scores_select(iq, w, ik, positions, 100), threads=(1, 2, 3))
    want = ref.index_scores_select(iq, w, ik, positions, 100)
    assert (got != want).sum() <= 4  # a near tie may fall the other way than in double
    for t, p in enumerate(positions):
        s = slice(t, t + 1)
        assert_same(index_scores_select(iq[s], w[s], ik[: p + 1], positions[s], 100), got[s])


def test_all_keys_while_they_fit():
    iq, w, ik = normal(1, 3, 2, 8), normal(2, 3, 2), normal(3, 10, 8)
    got = index_scores_select(iq, w, ik, np.array([0, 3, 4]), 5)
    assert got.tolist() == [[0, -1, -1, -1, -1], [0, 1, 2, 3, -1], [0, 1, 2, 3, 4]]


def test_zero_of_either_sign_ties():
    iq = np.array([[[1.0]]], np.float32)
    ik = np.array([[-1], [-1], [1], [-1]], np.float32)
    # relu gives +0 for keys 0, 1, 3; key 2 has the worst score, -1.
    got = everywhere(lambda: index_scores_select(iq, np.float32([[-1]]), ik, np.array([3]), 2))
    assert got.tolist() == [[0, 1]]


def test_many_rows_pass_through_the_buffer_in_rounds():
    rows, keys = 300, 20_000
    iq, w, ik = normal(1, rows, 1, 16), np.ones((rows, 1), np.float32), normal(2, keys, 16)
    positions = np.full(rows, keys - 1)
    got = index_scores_select(iq, w, ik, positions, 8)
    for t in (0, 208, 209, 210, 299):
        one = index_scores_select(iq[t : t + 1], w[t : t + 1], ik, positions[t : t + 1], 8)
        assert_same(one, got[t : t + 1])


def test_cache_views_are_read_in_place():
    iq, w, ik = normal(1, 2, 4, 24), normal(2, 2, 4), normal(3, 100, 40)
    positions = np.array([60, 99])
    got = everywhere(lambda: index_scores_select(iq, w, ik[:, 8:32], positions, 10))
    assert_same(got, index_scores_select(iq, w, ik[:, 8:32].copy(), positions, 10))


def test_a_row_takes_whole_pools_that_have_ended_and_its_tail():
    iq, w = np.ones((5, 1, 1), np.float32), np.ones((5, 1), np.float32)
    ik = np.array([[1], [3], [3], [9]], np.float32)  # the pools 0-3, 4-7, 8-11, 12-15
    got = index_scores_select(iq, w, ik, np.array([2, 7, 11, 14, 15]), 7, 4)
    assert got.tolist() == [
        [0, 1, 2, -1, -1, -1, -1],  # no pool has ended
        [4, 5, 6, 7, -1, -1, -1],  # topk // pool is one; nothing lies behind the last pool
        [4, 5, 6, 7, -1, -1, -1],  # of equal pools the lower
        [4, 5, 6, 7, 12, 13, 14],  # the best pool has not ended; its positions are the tail
        [12, 13, 14, 15, -1, -1, -1],
    ]
    assert selected(7, 4) == 7


def test_all_positions_while_they_fit_in_pools():
    iq, w, ik = normal(1, 2, 2, 8), normal(2, 2, 2), normal(3, 3, 8)
    got = index_scores_select(iq, w, ik, np.array([8, 10]), 8, 4)
    assert got[0].tolist() == [*range(9), -1, -1]
    assert got[1].tolist() == [*range(11)]


@pytest.mark.parametrize(("pool", "dim"), [(1, 5), (3, 40), (4, 128), (16, 16)])
def test_pooled_keys_match_the_reference_each_by_itself(pool, dim):
    rows, bias = normal(1, 6 * pool, 2, dim, scale=3), normal(2, pool, dim)

    def pooled(rows):
        out = np.empty((len(rows) // pool, dim), np.float32)
        pool_keys(rows, bias, out)
        return out

    whole = everywhere(lambda: pooled(rows), threads=(1, 2, 3))
    np.testing.assert_allclose(whole, ref.pool_keys(rows, bias), rtol=2e-6, atol=1e-6)
    for p in range(6):
        assert_same(pooled(rows[p * pool : (p + 1) * pool]), whole[p : p + 1])


def test_a_pool_of_one_is_its_key():
    rows, out = normal(1, 9, 2, 24, scale=20), np.empty((9, 24), np.float32)
    pool_keys(rows, normal(2, 1, 24), out)
    assert_same(out, rows[:, 0])


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("part", [0, 1])
def test_what_is_not_finite_in_a_pool_shows_in_its_channel_alone(bad, part):
    rows, out = normal(1, 8, 2, 24), np.empty((2, 24), np.float32)
    rows[5, part, 7] = bad
    if part and bad < 0:
        rows[4:8, 1, 7] = bad  # one alone has no weight, all together have none to share
    everywhere(lambda: pool_keys(rows, normal(2, 4, 24), out) or out)
    assert np.argwhere(~np.isfinite(out)).tolist() == [[1, 7]]


@pytest.mark.parametrize("bad", [np.nan, np.inf, 3e38])
@pytest.mark.parametrize("where", ["iq", "w", "ik"])
def test_a_non_finite_score_is_refused_by_row(where, bad):
    arrays = {"iq": normal(1, 3, 4, 24) + 9, "w": normal(2, 3, 4) + 9, "ik": normal(3, 100, 24) + 9}
    arrays[where].reshape(len(arrays[where]), -1)[-1 if where == "ik" else 1, 3] = bad
    positions = np.array([98, 99, 98])
    with pytest.raises(ValueError, match="row 1: an indexer score is not finite"):
        everywhere(lambda: index_scores_select(*arrays.values(), positions, 10))


def test_bad_arguments_are_refused():
    iq, w, ik = normal(1, 2, 4, 24), normal(2, 2, 4), normal(3, 100, 24)
    positions = np.array([60, 99])
    with pytest.raises(ValueError, match="row 1: the position"):
        index_scores_select(iq, w, ik[:99], positions, 10)
    with pytest.raises(ValueError, match="topk"):
        index_scores_select(iq, w, ik, positions, 0)
    with pytest.raises(ValueError, match="w must be"):
        index_scores_select(iq, w[:, :3].copy(), ik, positions, 10)
    with pytest.raises(ValueError, match="dim"):
        index_scores_select(iq, w, ik[:, :20], positions, 10)
    with pytest.raises(ValueError, match="row 1: the position"):
        index_scores_select(iq, w, ik[:24], positions, 8, 4)
    with pytest.raises(ValueError, match="multiple of pool"):
        index_scores_select(iq, w, ik, positions, 3, 4)
    with pytest.raises(ValueError, match="a key must stand for"):
        _native.index_scores_select(iq, w, ik, positions, 0, np.empty((2, 10), np.int32))


def test_pools_of_another_shape_are_refused():
    bias = normal(1, 4, 8)
    for shape, out in [
        ((7, 2, 8), (1, 8)),
        ((8, 2, 9), (2, 9)),
        ((8, 1, 8), (2, 8)),
        ((8, 2, 8), (1, 8)),
    ]:
        with pytest.raises(ValueError, match=r"pool|rows"):
            pool_keys(normal(2, *shape), bias, np.empty(out, np.float32))

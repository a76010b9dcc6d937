import numpy as np
import pytest
from bits import assert_same, everywhere, normal
from hypothesis import given, settings
from hypothesis import strategies as st

from colibri.kernels.attention import index_scores_select
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
    seed=st.integers(0, 999),
)
def test_matches_the_reference_with_many_ties(rows, keys, heads, dim, topk, seed):
    iq, ik = whole_numbers(seed, rows, heads, dim), whole_numbers(seed + 1, keys, dim)
    w = whole_numbers(seed + 2, rows, heads)
    positions = np.random.default_rng(seed).integers(0, keys, rows)
    got = everywhere(lambda: index_scores_select(iq, w, ik, positions, topk))
    np.testing.assert_array_equal(got, ref.index_scores_select(iq, w, ik, positions, topk))


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

import numpy as np
import pytest
from bits import assert_same, everywhere, normal
from hypothesis import given, settings
from hypothesis import strategies as st

from colibri.kernels.attention import attend
from colibri.kernels.reference import ops as ref


def case(seed: int, rows: int, keys: int, kv_heads: int, group: int, dk: int, dv: int):
    q = normal(seed, rows, kv_heads * group, dk)
    k, v = normal(seed + 1, keys, kv_heads, dk), normal(seed + 2, keys, kv_heads, dv)
    positions = np.random.default_rng(seed).integers(0, keys, rows)
    return q, k, v, positions


@settings(max_examples=30, deadline=None)
@given(
    rows=st.integers(1, 6),
    keys=st.integers(1, 200),
    kv_heads=st.integers(1, 3),
    group=st.sampled_from([1, 2, 3, 5, 8, 13]),
    dk=st.sampled_from([1, 8, 16, 24, 33, 64]),
    dv=st.sampled_from([1, 16, 20, 130, 272]),
    window=st.none() | st.integers(1, 150),
)
def test_matches_the_reference(rows, keys, kv_heads, group, dk, dv, window):
    q, k, v, positions = case(keys, rows, keys, kv_heads, group, dk, dv)
    scale = dk**-0.5
    got = everywhere(lambda: attend(q, k, v, positions, scale, window=window))
    want = ref.attend(q, k, v, positions, scale, window=window)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=3e-6)


def test_sharp_scores_match_the_reference():
    q, k, v, positions = case(1, 5, 300, 1, 8, 64, 32)
    got = everywhere(lambda: attend(q * 30, k, v, positions, 1.0))
    np.testing.assert_allclose(got, ref.attend(q * 30, k, v, positions, 1.0), atol=1e-4)


@pytest.mark.parametrize("window", [None, 1, 63, 64, 65, 100])
@pytest.mark.parametrize("shape", [(1, 8, 40, 24), (4, 1, 16, 16), (2, 3, 33, 40), (1, 70, 24, 16)])
def test_a_row_has_the_same_bits_alone_and_in_any_chunk(shape, window):
    q, k, v, _ = case(2, 150, 150, *shape)
    positions = np.arange(150)
    whole = everywhere(lambda: attend(q, k, v, positions, 0.2, window=window), threads=(1, 2, 3))
    for chunk in (1, 7, 64):
        for t in range(0, 150, chunk):
            s = slice(t, t + chunk)
            # The cache as it was then: nothing after the chunk.
            part = attend(q[s], k[: t + chunk], v[: t + chunk], positions[s], 0.2, window=window)
            assert_same(part, whole[s])


def test_rows_may_come_in_any_order():
    q, k, v, positions = case(3, 40, 500, 2, 4, 32, 32)
    whole = everywhere(lambda: attend(q, k, v, positions, 0.2))
    order = np.argsort(positions)
    assert_same(attend(q[order], k, v, positions[order], 0.2), whole[order])


def test_later_keys_are_not_seen_even_when_they_are_not_numbers():
    q, k, v, _ = case(4, 3, 200, 2, 8, 16, 16)
    positions = np.array([30, 64, 100])
    want = attend(q, k, v, positions, 0.2)
    k[101:], v[101:] = np.nan, np.inf
    assert_same(everywhere(lambda: attend(q, k, v, positions, 0.2)), want)
    windowed = attend(q, k, v, positions, 0.2, window=20)
    k[:11], v[:11] = np.nan, np.nan
    assert_same(everywhere(lambda: attend(q, k, v, positions, 0.2, window=20)), windowed)


def test_a_list_of_all_keys_gives_the_bits_of_none():
    q, k, v, positions = case(5, 9, 300, 1, 10, 40, 24)
    index = np.full((9, 310), -1, np.int32)
    for t, p in enumerate(positions):
        index[t, : p + 1] = np.arange(p + 1)
    dense = attend(q, k, v, positions, 0.2)
    assert_same(everywhere(lambda: attend(q, k, v, positions, 0.2, index=index)), dense)


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 5), st.integers(1, 150), st.sampled_from([1, 3, 20]), st.integers(0, 999))
def test_index_matches_the_reference_and_rows_are_independent(rows, listed, heads, seed):
    q, k, v, positions = case(seed, rows, 300, 1, heads, 24, 16)
    rng = np.random.default_rng(seed)
    index = np.full((rows, listed), -1, np.int32)
    for t, p in enumerate(positions):
        n = rng.integers(1, min(listed, p + 1) + 1)
        index[t, :n] = np.sort(rng.choice(p + 1, n, replace=False))
    got = everywhere(lambda: attend(q, k, v, positions, 0.2, index=index))
    want = ref.attend(q, k, v, positions, 0.2, index=index)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=3e-6)
    for t in range(rows):
        s = slice(t, t + 1)
        used = index[s, : (index[t] >= 0).sum()]
        assert_same(attend(q[s], k, v, positions[s], 0.2, index=np.ascontiguousarray(used)), got[s])


def test_views_of_a_cache_are_read_in_place():
    latent = normal(6, 400, 1, 72)[::2]  # rows farther apart than they are long
    q, positions = normal(7, 3, 16, 72), np.array([0, 130, 199])
    v = latent[:, :, :64]
    got = everywhere(lambda: attend(q, latent, v, positions, 0.1))
    assert_same(got, attend(q, latent.copy(), np.ascontiguousarray(v), positions, 0.1))
    heads_first = np.ascontiguousarray(normal(8, 200, 4, 16).swapaxes(0, 1)).swapaxes(0, 1)
    q = normal(9, 3, 8, 16)
    got = attend(q, heads_first, heads_first, positions, 0.1)
    assert_same(got, attend(q, heads_first.copy("C"), heads_first.copy("C"), positions, 0.1))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 3e38])
@pytest.mark.parametrize("where", ["q", "k"])
def test_what_is_not_finite_becomes_nan(where, bad):
    q, k, v, _ = case(10, 2, 100, 1, 2, 16, 16)
    positions = np.array([50, 99])
    (q if where == "q" else k)[...].reshape(len(q) if where == "q" else 100, -1)[-1, 0] = bad
    (k if where == "q" else q)[..., 0] = 9
    got = everywhere(lambda: attend(q, k, v, positions, 1.0))
    assert np.isfinite(got[0]).all()
    assert np.isnan(got[1, 0]).all()


def test_an_infinite_value_is_not_lost():
    q, k, v, positions = case(11, 2, 100, 1, 2, 16, 16)
    v[0, 0, 3] = np.inf
    got = everywhere(lambda: attend(q, k, v, positions, 1.0))
    assert not np.isfinite(got[..., 3]).any()
    assert np.isfinite(np.delete(got, 3, -1)).all()


def test_bad_arguments_are_refused():
    q, k, v, positions = case(12, 2, 10, 2, 2, 16, 16)
    index = np.array([[0, 1], [0, -1]], np.int32)

    def refused(message, q=q, k=k, v=v, positions=positions, **more):
        with pytest.raises(ValueError, match=message):
            attend(q, k, v, positions, 1.0, **more)

    refused("row 1: the position", positions=np.array([0, 10]))
    refused("row 0: the position", positions=np.array([-1, 9]))
    refused("one element a row", positions=np.array([1]))
    refused("divide into kv_heads", q=normal(0, 2, 3, 16))
    refused("head size", k=normal(0, 10, 2, 17))
    refused("k's keys", v=normal(0, 9, 2, 16))
    refused("window must be", window=0)
    refused("not both", window=3, index=index)
    at = np.array([5, 5])
    for row in ([3, 2], [2, 2], [4, 6], [-1, -1], [-1, 3], [-2, -1]):
        bad = np.array([[0, 1], row], np.int32)
        refused("row 1: index must", positions=at, index=bad)
    refused("row contiguous", k=normal(0, 10, 2, 32)[:, :, ::2])
    refused("row contiguous", k=k[::-1])


def test_empty_batch():
    q, k, v, positions = case(13, 2, 10, 2, 2, 16, 16)
    assert attend(q[:0], k, v, positions[:0], 1.0).shape == (0, 4, 16)

import numpy as np
import pytest
from bits import assert_same, everywhere, normal
from hypothesis import given, settings
from hypothesis import strategies as st

from colibri.kernels import ops
from colibri.kernels.reference import ops as ref

sizes = st.tuples(st.integers(1, 5), st.integers(1, 150))


@settings(max_examples=25, deadline=None)
@given(sizes, st.integers(0, 1000), st.sampled_from([1e-4, 1.0, 1e4]))
def test_norms_match_the_reference(shape, seed, scale):
    x, w, b = (
        normal(seed, *shape, scale=scale),
        normal(seed + 1, shape[1]),
        normal(seed + 2, shape[1]),
    )
    got = everywhere(lambda: ops.rms_norm(x, w, 1e-6))
    np.testing.assert_allclose(got, ref.rms_norm(x, w, 1e-6), rtol=1e-6, atol=1e-6)
    got = everywhere(lambda: ops.layer_norm(x, w, b, 1e-6))
    # One element minus its own mean, or a few that nearly cancel, have an error relative to |x|.
    tolerance = 1e-5 if shape[1] > 8 else 1e-2
    np.testing.assert_allclose(got, ref.layer_norm(x, w, b, 1e-6), rtol=1e-5, atol=tolerance)


def test_rms_norm_takes_any_leading_shape_and_works_in_place():
    x, w = normal(1, 2, 3, 4, 40), normal(2, 40)
    want = ops.rms_norm(x, w, 1e-5)
    assert want.shape == x.shape
    assert_same(want[1, 2], ops.rms_norm(np.ascontiguousarray(x[1, 2]), w, 1e-5))
    assert ops.rms_norm(x, w, 1e-5, out=x) is x
    assert_same(x, want)


@settings(max_examples=25, deadline=None)
@given(sizes, st.integers(0, 1000))
def test_add_rms_norm_has_the_bits_of_a_sum_and_its_norm(shape, seed):
    x, y, w = normal(seed, *shape), normal(seed + 1, *shape), normal(seed + 2, shape[1])

    def both():
        stream, other = x.copy(), y.copy()
        assert ops.add_rms_norm(stream, other, w, 1e-6) is other
        return np.stack([other, stream])

    normed, stream = everywhere(both)
    assert_same(stream, x + y)
    assert_same(normed, ops.rms_norm(x + y, w, 1e-6))
    np.testing.assert_allclose(normed, ref.rms_norm(x + y, w, 1e-6), rtol=1e-6, atol=1e-6)


def test_many_rows_have_the_bits_of_one_row():
    x, w, b = normal(3, 500, 100), normal(4, 100), normal(5, 100)
    for f in (
        lambda a: ops.rms_norm(a, w, 1e-6),
        lambda a: ops.add_rms_norm(a.copy(), a.copy(), w, 1e-6),
        lambda a: ops.layer_norm(a, w, b, 1e-6),
        ops.softmax,
        ops.log_sum_exp,
        ops.sigmoid,
        lambda a: ops.silu_mul(a, a),
    ):
        whole = everywhere(lambda f=f: f(x), threads=(1, 2, 3))
        assert_same(whole, np.concatenate([f(x[i : i + 1]) for i in range(500)]))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 3e38])
@pytest.mark.parametrize("at", [0, 20, 36])
def test_norms_never_hide_a_row_that_overflows(bad, at):
    x, w = normal(6, 3, 37), np.ones(37, np.float32)
    x[1, at] = bad
    for f in (lambda: ops.rms_norm(x, w, 1e-6), lambda: ops.layer_norm(x, w, w, 1e-6)):
        y = everywhere(f)
        assert np.isnan(y[1]).all()
        assert np.isfinite(y[[0, 2]]).all()


def test_norms_refuse_wrong_shapes():
    x, w = normal(7, 3, 8), normal(8, 7)
    with pytest.raises(ValueError, match="length of x's last dimension"):
        ops.rms_norm(x, w, 1e-6)
    with pytest.raises(ValueError, match="shape of x"):
        ops.add_rms_norm(x, x[:2], x[0], 1e-6)
    with pytest.raises(ValueError, match="two arrays"):
        ops.add_rms_norm(x, x, x[0], 1e-6)
    with pytest.raises(ValueError, match="bias"):
        ops.layer_norm(x, x[0], w, 1e-6)
    with pytest.raises(TypeError):
        ops.rms_norm(x.T, x[:, 0], 1e-6)


@settings(max_examples=25, deadline=None)
@given(sizes, st.integers(0, 1000), st.sampled_from([0.1, 1.0, 30.0]))
def test_elementwise_match_the_reference(shape, seed, scale):
    x, y = normal(seed, *shape, scale=scale), normal(seed + 1, *shape)
    np.testing.assert_allclose(
        everywhere(lambda: ops.silu_mul(x, y)), ref.silu_mul(x, y), rtol=1e-6, atol=1e-30
    )
    gate = x.copy()
    assert_same(ops.silu_mul(gate, y, out=gate), ops.silu_mul(x, y))
    limited = everywhere(lambda: ops.silu_mul(x, y, limit=0.5))
    np.testing.assert_allclose(limited, ref.silu_mul(x, y, 0.5), rtol=1e-6, atol=1e-30)
    got = everywhere(lambda: ops.sigmoid(x))
    np.testing.assert_allclose(got, ref.sigmoid(x), rtol=5e-7, atol=3e-39)  # 0 where exp is inf


def test_exp_within_one_ulp_over_its_whole_range():
    # softmax of (x, 0), x <= 0, is (e, 1) / (1 + e), which below -20 is e itself.
    x = np.linspace(-87.3, -20, 60001).astype(np.float32)
    pairs = np.stack([x, np.zeros_like(x)], 1)
    e = everywhere(lambda: ops.softmax(pairs), threads=(1,))[:, 0]
    want = np.exp(x.astype(np.float64))
    assert (np.abs(e - want) <= np.spacing(want.astype(np.float32))).all()
    # 1 / (1 + exp(-x)): exp above 1, seen through one addition and one division.
    x = np.linspace(-87.3, 87.3, 60001).astype(np.float32)
    s = everywhere(lambda: ops.sigmoid(x), threads=(1,))
    want = 1 / (1 + np.exp(-x.astype(np.float64)))
    assert (np.abs(s - want) <= 2.5 * np.spacing(want.astype(np.float32))).all()


def test_exp_at_its_edges():
    tiny = np.finfo(np.float32).tiny
    edges = np.array(
        [-87.33655, -87.33654, -87.4, -103, -1e30, -np.inf, np.nan, 0, -0.0], np.float32
    )
    pairs = np.stack([edges, np.zeros_like(edges)], 1)
    got = everywhere(lambda: ops.softmax(pairs))[:, 0]
    assert got[0] == 0  # no denormal result
    assert got[1] >= tiny
    assert (got[2:6] == 0).all()
    assert np.isnan(got[6])
    assert (got[7:] == 0.5).all()
    s = everywhere(lambda: ops.sigmoid(np.array([-88.72284, -88.72283, -200, 200], np.float32)))
    assert s[0] == 0
    assert 0 < s[1] < 4e-39
    assert list(s[2:]) == [0, 1]


@settings(max_examples=25, deadline=None)
@given(sizes, st.integers(0, 1000), st.sampled_from([0.1, 10.0, 1e4]))
def test_softmax_and_log_sum_exp_match_the_reference(shape, seed, scale):
    x = normal(seed, *shape, scale=scale)
    x[0, 1:][normal(seed + 1, shape[1] - 1) > 0.5] = -np.inf
    got = everywhere(lambda: ops.softmax(x))
    # x - max, below 88, is rounded to fp32: half a unit of its last place in the exponent.
    np.testing.assert_allclose(got, ref.softmax(x), rtol=6e-6, atol=1e-37)
    assert (got[np.isneginf(x)] == 0).all()
    got = everywhere(lambda: ops.log_sum_exp(x))
    assert got.dtype == np.float64
    np.testing.assert_allclose(got, ref.log_sum_exp(x), rtol=1e-12, atol=5e-7)


def test_log_sum_exp_of_a_vocabulary_keeps_its_digits():
    x = normal(9, 2, 150_001)
    np.testing.assert_allclose(ops.log_sum_exp(x), ref.log_sum_exp(x), atol=2e-7, rtol=0)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_softmax_of_a_non_finite_row_is_nan(bad):
    x = normal(10, 3, 33)
    x[1, 32] = bad
    for f in (ops.softmax, ops.log_sum_exp):
        y = everywhere(lambda f=f: f(x))
        assert np.isnan(y[1]).all()
        assert np.isfinite(y[[0, 2]]).all()
    x[1] = -np.inf
    x[1, 5] = np.nan
    assert np.isnan(ops.softmax(x)[1]).all()


def test_a_row_without_a_distribution_is_refused_by_name():
    x = normal(11, 6000, 33)
    x[[41, 4000]] = -np.inf
    for f in (ops.softmax, ops.log_sum_exp):
        with pytest.raises(ValueError, match="row 41: every element is -inf"):
            everywhere(lambda f=f: f(x))


def test_empty_batches():
    none, w = np.empty((0, 8), np.float32), np.ones(8, np.float32)
    assert ops.rms_norm(none, w, 1e-6).shape == (0, 8)
    assert ops.softmax(none).shape == (0, 8)
    assert ops.log_sum_exp(none).shape == (0,)
    assert ops.silu_mul(none, none).shape == (0, 8)

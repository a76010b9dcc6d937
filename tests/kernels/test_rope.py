import numpy as np
import pytest
from bits import assert_same, everywhere, normal
from hypothesis import given, settings
from hypothesis import strategies as st

from colibri.kernels import ops
from colibri.kernels.reference import ops as ref


def frequencies(half: int, base: float = 10000.0):
    return (base ** -(np.arange(half) / half)).astype(np.float32)


def test_table_is_right_to_the_last_fp32_bit_up_to_ten_million():
    rng = np.random.default_rng(0)
    positions = np.concatenate([np.arange(50), rng.integers(0, 10_000_000, 3000), [10_000_000]])
    inv_freq = frequencies(8)
    cos, sin = everywhere(lambda: ops.rope_table(positions, inv_freq), threads=(1, 2))
    want = ref.rope_table(positions, inv_freq)  # libm in double, rounded once
    assert (cos == want[0]).mean() > 0.9999
    assert (sin == want[1]).mean() > 0.9999
    np.testing.assert_allclose(cos, want[0], rtol=1.2e-7)
    np.testing.assert_allclose(sin, want[1], rtol=1.2e-7, atol=1e-30)


def test_table_at_multiples_of_half_pi():
    n = np.arange(1, 2000)
    angles = (n * (np.pi / 2)).astype(np.float32)
    cos, sin = ops.rope_table(np.array([1]), angles)
    np.testing.assert_allclose(cos[0], np.cos(angles.astype(np.float64)), rtol=1.2e-7)
    np.testing.assert_allclose(sin[0], np.sin(angles.astype(np.float64)), rtol=1.2e-7)


def test_table_is_scaled_in_fp32():
    positions, inv_freq = np.arange(7), frequencies(5)
    cos, sin = ops.rope_table(positions, inv_freq)
    scaled = ops.rope_table(positions, inv_freq, 1.1)
    assert_same(scaled, (cos * np.float32(1.1), sin * np.float32(1.1)))


@pytest.mark.parametrize(("bad", "row"), [(np.nan, 0), (np.inf, 0), (1e5, 1)])
def test_table_refuses_angles_it_cannot_reduce(bad, row):
    inv_freq = frequencies(4)
    inv_freq[2] = bad
    with pytest.raises(ValueError, match=f"row {row}: an angle"):
        ops.rope_table(np.array([0, 1000]), inv_freq)


@settings(max_examples=30, deadline=None)
@given(
    st.integers(1, 4),
    st.integers(1, 3),
    st.integers(1, 40),
    st.integers(0, 9),
    st.integers(0, 9),
    st.booleans(),
)
def test_rotation_matches_the_reference(rows, heads, half, before, after, interleaved):
    cos, sin = ops.rope_table(np.arange(rows) * 37 + 5, frequencies(half))
    x = normal(half, rows, heads, before + 2 * half + after)

    def rotated(apply):
        y = x.copy()
        apply(y, cos, sin, before, interleaved)
        return y

    got = everywhere(lambda: rotated(ops.apply_rope))
    np.testing.assert_allclose(got, rotated(ref.apply_rope), atol=1e-6)
    assert_same(got[..., :before], x[..., :before])
    assert_same(got[..., before + 2 * half :], x[..., before + 2 * half :])


def test_both_pairings_give_the_same_bits():
    half = 20
    cos, sin = ops.rope_table(np.arange(6), frequencies(half))
    x = normal(1, 6, 2, 2 * half)
    pairs = np.ascontiguousarray(x.reshape(6, 2, 2, half).swapaxes(2, 3)).reshape(6, 2, 2 * half)
    ops.apply_rope(x, cos, sin, 0, False)
    ops.apply_rope(pairs, cos, sin, 0, True)
    assert_same(
        x, np.ascontiguousarray(pairs.reshape(6, 2, half, 2).swapaxes(2, 3)).reshape(x.shape)
    )


def test_rows_have_the_bits_of_one_row():
    cos, sin = ops.rope_table(np.arange(300), frequencies(32))
    x = normal(2, 300, 8, 64)
    alone = x.copy()
    for t in range(300):
        ops.apply_rope(alone[t : t + 1], cos[t : t + 1], sin[t : t + 1], 0, False)
    whole = everywhere(lambda: _rotate(x.copy(), cos, sin))
    assert_same(alone, whole)


def _rotate(x, cos, sin):
    ops.apply_rope(x, cos, sin, 0, False)
    return x


def test_rotation_refuses_wrong_shapes():
    cos, sin = ops.rope_table(np.arange(3), frequencies(4))
    with pytest.raises(ValueError, match="within a head"):
        ops.apply_rope(normal(0, 3, 2, 8), cos, sin, 1, False)
    with pytest.raises(ValueError, match="within a head"):
        ops.apply_rope(normal(0, 3, 2, 8), cos, sin, -1, False)
    with pytest.raises(ValueError, match="a row for each row"):
        ops.apply_rope(normal(0, 2, 2, 8), cos, sin, 0, False)

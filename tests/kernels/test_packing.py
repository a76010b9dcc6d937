import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from variants import every_way

from colibri import _native
from colibri.formats.base import NonFiniteError, decode
from colibri.formats.packed import (
    INT3,
    INT4,
    INT8,
    ScaleRange,
    multiplier_for,
    narrow_matrix,
    pack,
    pack_expert,
    pack_matrix,
    scale_range,
)
from colibri.formats.table import FORMATS
from colibri.kernels.reference import packing as reference

SCHEMES = ("int4-gs64", "int8-gs64")
schemes = st.sampled_from(SCHEMES)


def unpack(data, scheme, rows, cols, multiplier):
    return decode(FORMATS[scheme].matrix(rows, cols, (data,), multiplier))


def random_weights(seed, rows, cols, dtype="f32", exponent=-5):
    rng = np.random.default_rng(seed)
    w = rng.standard_normal((rows, cols)).astype(np.float32) * np.float32(2.0**exponent)
    if dtype == "bf16":
        return (w.view(np.uint32) >> 16).astype(np.uint16)
    return w.astype(np.float16) if dtype == "f16" else w


def packed(w, scheme, multiplier=1.0):
    out = np.full(FORMATS[scheme].nbytes(*w.shape), 0xA5, np.uint8)
    pack(w, FORMATS[scheme], multiplier, out)
    return out


def extremes(w, scheme):
    r = scale_range(w, FORMATS[scheme])
    return np.array([r.smallest, r.largest])


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    rows=st.integers(1, 70),
    cols=st.integers(1, 300),
    scheme=schemes,
    dtype=st.sampled_from(["f32", "f16", "bf16"]),
    exponent=st.integers(-14, 8),
)
def test_pack_is_the_twin_byte_for_byte(seed, rows, cols, scheme, dtype, exponent):
    w = random_weights(seed, rows, cols, dtype, exponent)
    w[seed % rows, : cols // 2] = 0
    r = ScaleRange(*every_way(lambda: extremes(w, scheme)).tolist())
    assert (r.smallest, r.largest) == reference.scale_range(w, scheme)
    multiplier = multiplier_for(r)
    data = every_way(lambda: packed(w, scheme, multiplier))
    np.testing.assert_array_equal(data, reference.pack(w, scheme, multiplier))
    ours = every_way(lambda: unpack(data, scheme, rows, cols, multiplier))
    twin = reference.unpack(data, scheme, rows, cols, multiplier)
    np.testing.assert_array_equal(ours.view(np.uint32), twin.view(np.uint32))


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32), rows=st.integers(1, 40), cols=st.integers(1, 300), scheme=schemes
)
def test_narrowing_is_the_twin_byte_for_byte(seed, rows, cols, scheme):
    w = random_weights(seed, rows, cols)
    w[seed % rows, : cols // 2] = 0
    w[-1, -1] = seed % 3 - 1  # the largest of its group, or a zero
    m = pack_matrix(w, FORMATS[scheme])
    narrow = narrow_matrix(m)
    data = every_way(lambda: narrow_matrix(m).data)
    np.testing.assert_array_equal(data, reference.narrow(m.data, scheme, cols))
    values = every_way(lambda: unpack(data, "int3-gs64", rows, cols, narrow.multiplier))
    twin = reference.unpack(data, "int3-gs64", rows, cols, narrow.multiplier)
    np.testing.assert_array_equal(values, twin)
    exact = unpack(m.data, scheme, rows, cols, m.multiplier)
    # Half a step of int4, of which the peak is 7 or 8. The eighths of int8 end at 104 of 127 steps
    # on the side where its largest weight is not.
    share = 0.5001 / 7 if scheme == "int4-gs64" else 23.01 / 127
    group = np.repeat(np.arange(-(-cols // 64)), 64)[:cols]
    peak = np.stack([np.abs(exact[:, group == g]).max(1) for g in range(group[-1] + 1)], 1)
    assert (np.abs(values - exact) <= share * peak[:, group]).all()


def test_the_three_high_bits_of_int4_are_kept():
    w = np.zeros((16, 64), np.float32)
    w[2] = np.arange(64) % 16 - 8
    narrow = narrow_matrix(pack_matrix(w, INT4))
    values = unpack(narrow.data, "int3-gs64", 16, 64, narrow.multiplier)
    np.testing.assert_array_equal(values[2], np.arange(64) % 16 // 2 * 2 - 7.5)
    assert not values[3].any()
    # Inputs 1, 5, 9, 13 have codes 0, 2, 4, 6; of 1, 5, ... 29 every third and fourth is above 3.
    assert narrow.data[4 * 2 + 1] == 0 | 2 << 2 | 0 << 4 | 2 << 6
    assert narrow.data[256 + 4 * 2 + 1] == 0b11001100
    assert narrow.data[4 * 3] == 0  # of zeros: code 4
    assert narrow.data[256 + 4 * 3] == 255


def test_what_cannot_be_narrowed_is_refused():
    m = narrow_matrix(pack_matrix(random_weights(1, 16, 64), INT4))
    with pytest.raises(ValueError, match="only int4 and int8"):
        narrow_matrix(m)
    with pytest.raises(ValueError, match="out has the wrong size"):
        _native.narrow(INT4.matrix(16, 64, [np.zeros(576, np.uint8)]).native, np.zeros(9, np.uint8))
    with pytest.raises(ValueError, match="narrowed to int3"):
        pack_matrix(random_weights(1, 16, 64), INT3)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_layout_of_a_known_block(scheme):
    w = np.zeros((16, 128), np.float32)
    w[3, 64 + 8 * 2 + 1] = -8.0  # group 1, j 2, b 1: low nibble
    w[3, 64 + 8 * 2 + 4 + 1] = 5.0  # high nibble of the same byte
    data = packed(w, scheme)
    if scheme == "int4-gs64":
        assert data[512 + 2 * 64 + 3 * 4 + 1] == 0 | 13 << 4
        assert data[0] == 0x88
        assert data[1024:].view(np.float16)[16 + 3] == 1.0
    else:
        s = np.float16(8 / 127)
        assert data[1024 + 4 * 64 + 3 * 4 + 1] == 1
        assert data[1024 + 5 * 64 + 3 * 4 + 1] == 128 + round(5 / float(s))
        assert data[2048:].view(np.float16)[16 + 3] == s


@pytest.mark.parametrize(
    ("cols", "int4", "int8"), [(1, 576, 1088), (64, 576, 1088), (128, 1088, 2112)]
)
def test_block_bytes(cols, int4, int8):
    assert INT4.block_bytes(cols) == int4
    assert INT8.block_bytes(cols) == int8
    assert INT4.nbytes(17, cols) == 2 * int4


@pytest.mark.parametrize("scheme", SCHEMES)
def test_error_is_within_half_a_step(scheme):
    w = random_weights(1, 40, 200)
    m = pack_matrix(w, FORMATS[scheme])
    back = unpack(m.data, scheme, 40, 200, m.multiplier)
    bound = np.abs(w).max() / (8 if scheme == "int4-gs64" else 127)
    assert np.abs(back - w).max() <= bound
    assert np.linalg.norm(back - w) / np.linalg.norm(w) < (0.11 if scheme == "int4-gs64" else 7e-3)


def test_rows_packed_block_by_block_give_the_bytes_of_the_whole():
    w = random_weights(2, 70, 130)
    whole = packed(w, "int4-gs64")
    parts = [packed(w[i : i + 32], "int4-gs64") for i in range(0, 70, 32)]
    np.testing.assert_array_equal(whole, np.concatenate(parts))


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("exponent", [-140, -100, -30, 24, 110])
def test_scales_outside_fp16_use_a_multiplier(scheme, exponent):
    w = random_weights(3, 16, 64, exponent=exponent)
    r = scale_range(w, FORMATS[scheme])
    multiplier = multiplier_for(r)
    assert multiplier != 1.0
    assert multiplier >= 2.0**-126
    data = every_way(lambda: packed(w, scheme, multiplier))
    np.testing.assert_array_equal(data, reference.pack(w, scheme, multiplier))
    if exponent > -130:
        assert 2**14 <= r.largest / multiplier < 2**15
        back = unpack(data, scheme, 16, 64, multiplier)
        assert np.abs(back.astype(np.float64) - w).max() <= np.abs(w).max() / 8


def test_a_matrix_of_zeros():
    w = np.zeros((16, 64), np.float32)
    r = scale_range(w, INT4)
    assert r == ScaleRange(np.inf, 0.0)
    assert multiplier_for(r) == 1.0
    m = pack_matrix(w, INT4)
    assert not unpack(m.data, m.format.name, 16, 64, 1.0).any()


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
def test_a_weight_that_is_not_finite_is_refused(value, dtype):
    w = random_weights(4, 40, 100, dtype)
    bits = np.float32(value).view(np.uint32) >> 16 if dtype == "bf16" else value
    w[33, 71] = w[38, 2] = bits
    with pytest.raises(NonFiniteError, match="row 33, column 71"):
        scale_range(w, INT4)
    with pytest.raises(NonFiniteError) as e:
        packed(w, "int8-gs64")
    assert (e.value.row, e.value.col) == (33, 71)


def test_a_scale_too_large_for_fp16_is_refused():
    w = np.full((16, 64), 1e9, np.float32)
    with pytest.raises(ValueError, match="multiplier"):
        packed(w, "int4-gs64", 1.0)


def test_wrong_shapes_and_types_are_refused():
    w = random_weights(5, 16, 64)
    with pytest.raises(ValueError, match="float32"):
        scale_range(w.astype(np.float64), INT4)
    with pytest.raises(ValueError, match="contiguous"):
        scale_range(w[:, ::2], INT4)
    with pytest.raises(ValueError, match="wrong size"):
        pack(w, INT4, 1.0, np.empty(575, np.uint8))
    with pytest.raises(ValueError, match="bytes"):
        unpack(np.empty(575, np.uint8), "int4-gs64", 16, 64, 1.0)
    with pytest.raises(ValueError, match="bytes"):
        INT4.matrix(16, 64, (np.empty(575, np.uint8),))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_expert_record(scheme):
    gate, up = random_weights(6, 40, 96), random_weights(7, 40, 96)
    down = random_weights(8, 96, 40)
    body, mults = pack_expert(gate, up, down, FORMATS[scheme])
    assert mults == (1.0, 1.0, 1.0)
    size = FORMATS[scheme].block_bytes(96)
    blocks = body[: 6 * size].reshape(3, 2, size)
    np.testing.assert_array_equal(blocks[:, 0].reshape(-1), packed(gate, scheme))
    np.testing.assert_array_equal(blocks[:, 1].reshape(-1), packed(up, scheme))
    np.testing.assert_array_equal(body[6 * size :], packed(down, scheme))
    with pytest.raises(ValueError, match="disagree"):
        pack_expert(gate, up, up, FORMATS[scheme])


@pytest.mark.parametrize("first", [1.0, -1.0])
def test_the_first_of_equal_magnitudes_sets_the_sign_of_the_scale(first):
    w = np.zeros((16, 64), np.float32)
    w[:, 10], w[:, 40] = first, -first
    data = packed(w, "int4-gs64")
    np.testing.assert_array_equal(data, reference.pack(w, "int4-gs64", 1.0))
    np.testing.assert_array_equal(unpack(data, "int4-gs64", 16, 64, 1.0)[:, 10], w[:, 10])
    assert (data[512:544].view(np.float16) == -first / 8).all()

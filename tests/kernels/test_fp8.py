"""fp8 weights give the bits of their float32 values, in every kernel that takes them."""

import numpy as np
import pytest
from bits import assert_same as same
from bits import everywhere as every_way
from hypothesis import given, settings
from hypothesis import strategies as st

from colibri.formats.base import NonFiniteError, check_finite, decode
from colibri.formats.floats import float_matrix
from colibri.formats.fp8 import FP8, SCALED, fp8_matrix, scale_shape
from colibri.formats.packed import INT8, pack_matrix
from colibri.formats.table import FORMATS
from colibri.kernels.layer import Projector
from colibri.kernels.matmul import embed, matmul, matmul_heads
from colibri.kernels.moe import ExpertLayout, ExpertTable, moe_all, moe_some
from colibri.kernels.reference import fp8 as reference

KINDS = ("f32", "bf16", "ue8m0")


def random_codes(rng, *shape):
    codes = rng.integers(0, 256, shape, dtype=np.uint8)
    codes[codes & 127 == 127] ^= 1
    return codes


def random_scales(rng, shape, kind):
    if kind == "ue8m0":
        return rng.integers(110, 130, shape, dtype=np.uint8)
    scales = (rng.standard_normal(shape) / 100).astype(np.float32)
    return scales if kind == "f32" else (scales.view(np.uint32) >> 16).astype(np.uint16)


def matrix(seed, rows, cols, kind, first=0):
    rng = np.random.default_rng(seed)
    scales = random_scales(rng, scale_shape(rows, cols, first), kind)
    return fp8_matrix(random_codes(rng, rows, cols), scales, first)


def activations(seed, *shape):
    return np.random.default_rng(seed + 1).standard_normal(shape).astype(np.float32)


def values(w):
    return float_matrix(reference.decode(*w.parts, w.first))


shapes = dict(
    seed=st.integers(0, 2**32),
    rows=st.integers(1, 150),
    cols=st.integers(1, 400),
    kind=st.sampled_from(KINDS),
    first=st.integers(0, SCALED - 1),
)


@settings(max_examples=40, deadline=None)
@given(**shapes)
def test_decoding_is_its_twin_every_way(seed, rows, cols, kind, first):
    w = matrix(seed, rows, cols, kind, first)
    same(every_way(lambda: decode(w)), reference.decode(*w.parts, first))
    check_finite(w)


def test_every_code_has_its_value():
    codes = np.arange(256, dtype=np.uint8).reshape(1, 256)
    codes = codes[:, codes[0] & 127 != 127]
    found = decode(fp8_matrix(codes, np.ones((1, 2), np.float32)))[0]
    at = dict(zip(codes[0].tolist(), found.tolist(), strict=True))
    assert (at[0x38], at[0xB9], at[0x7E]) == (1.0, -1.125, 448.0)
    assert (at[0x01], at[0x07], at[0x08]) == (2.0**-9, 7 * 2.0**-9, 2.0**-6)
    assert np.signbit(at[0x80])
    assert at[0x80] == at[0] == 0


@settings(max_examples=60, deadline=None)
@given(tokens=st.integers(1, 37), **shapes)
def test_products_have_the_bits_of_the_float32_values(seed, tokens, rows, cols, kind, first):
    w, x = matrix(seed, rows, cols, kind, first), activations(seed, tokens, cols)
    y = every_way(lambda: matmul(x, w))
    same(y, matmul(x, values(w)))
    for t in (0, tokens - 1):
        same(matmul(x[t : t + 1], w), y[t : t + 1])


@pytest.mark.parametrize("kind", KINDS)
def test_heads_embedding_rows_and_neighbours(kind):
    w, x = matrix(2, 150, 200, kind, first=100), activations(2, 5, 200)
    same(matmul_heads(np.repeat(x[:, None], 3, 1), w).reshape(5, -1), matmul(x, w))
    ids = np.array([149, 0, 28, 27], np.int64)
    same(every_way(lambda: embed(ids, w)), values(w).data[ids])
    other = pack_matrix(activations(3, 40, 200), INT8)
    both = every_way(lambda: np.concatenate(Projector([w, other, w])(x), axis=1))
    same(both, np.concatenate([matmul(x, m) for m in (w, other, w)], axis=1))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("col", [0, 127, 128, 199])
@pytest.mark.parametrize("code", [0x7F, 0xFF])
def test_a_nan_code_is_found_and_never_a_number(kind, col, code):
    w, x = matrix(4, 9, 200, kind), activations(4, 17, 200)
    w.data[6, col] = code
    w.data[7, 5] = 0x7F
    for tokens in (1, 17):
        y = every_way(lambda tokens=tokens: matmul(x[:tokens], w))
        clean = np.arange(9) // 2 != 3
        assert np.isnan(y[:, ~clean]).all()
        same(y, matmul(x[:tokens], values(w)))
    for attempt in (check_finite, decode):
        with pytest.raises(NonFiniteError) as error:
            attempt(w)
        assert (error.value.row, error.value.col) == (6, col)
    assert np.isnan(embed(np.array([6], np.int64), w)[0, col])


@pytest.mark.parametrize(
    ("kind", "scale", "finite"),
    [
        ("f32", 2.0**119, True),
        ("f32", 2.0**120, False),
        ("f32", np.inf, False),
        ("f32", np.nan, False),
        ("f32", 2.0**-149, True),
        ("f32", 0.0, True),
        ("f32", -1.0, True),
        ("bf16", 0x7B00, True),  # 2^119
        ("bf16", 0x7B80, False),
        ("bf16", 0x7FC0, False),
        ("bf16", 0x0001, True),
        ("ue8m0", 246, True),
        ("ue8m0", 247, False),
        ("ue8m0", 255, False),
        ("ue8m0", 0, True),
    ],
)
def test_scales_at_the_ends_of_their_range(kind, scale, finite):
    w = matrix(5, 130, 130, kind)
    w.parts[1][1, 1] = scale
    expected = reference.decode(*w.parts)
    if finite:
        same(every_way(lambda: decode(w)), expected)
    else:
        with pytest.raises(NonFiniteError) as error:
            check_finite(w)
        assert (error.value.row, error.value.col) == (128, 128)
        x = activations(5, 3, 130)
        assert not np.isfinite(every_way(lambda: matmul(x, w))[:, 128:]).any()


@pytest.mark.parametrize(
    ("shape", "first", "message"),
    [
        ((1, 2), 0, r"scales \[2, 2\]"),
        ((2, 1), 0, r"not .* \[2, 1\]"),
        ((3, 2), 128, "within a block"),
    ],
)
def test_scales_of_another_shape_are_refused(shape, first, message):
    codes = np.zeros((200, 200), np.uint8)
    with pytest.raises(ValueError, match=message):
        decode(fp8_matrix(codes, np.ones(shape, np.float32), first))
    with pytest.raises(ValueError, match="float32, uint16"):
        decode(fp8_matrix(codes, np.ones((2, 2), np.float16)))


def unaligned(a):
    """The same bytes at an odd address, as a tensor inside a file may lie."""
    raw = np.empty(a.nbytes + 1, np.uint8)
    raw[1:] = a.view(np.uint8).reshape(-1)
    return raw[1:]


def experts(seed, count, hidden, inner, kind, up_first):
    """(layout, addresses) in fp8 and in float32, and what keeps the memory alive."""
    format = FP8[KINDS.index(kind)]
    alive, parts, plain = [], [], []
    for e in range(count):
        three = [
            matrix(seed + 10 * e, inner, hidden, kind),
            matrix(seed + 10 * e + 1, inner, hidden, kind, up_first),
            matrix(seed + 10 * e + 2, hidden, inner, kind),
        ]
        stored = [unaligned(m.data) for m in three] + [unaligned(m.parts[1]) for m in three]
        dense = [values(m).data for m in three]
        parts.append([a.ctypes.data for a in stored])
        plain.append([a.ctypes.data for a in dense])
        alive += stored + dense
    fp8 = ExpertLayout(format, hidden, inner, up_first), np.array(parts, np.uint64)
    return fp8, (ExpertLayout(FORMATS["f32"], hidden, inner), np.array(plain, np.uint64)), alive


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    tokens=st.integers(1, 40),
    hidden=st.integers(1, 150),
    inner=st.integers(1, 150),
    kind=st.sampled_from(KINDS),
    up_first=st.integers(0, SCALED - 1),
)
def test_experts_have_the_bits_of_their_float32_values(seed, tokens, hidden, inner, kind, up_first):
    fp8, plain, _alive = experts(seed, 3, hidden, inner, kind, up_first)
    rng = np.random.default_rng(seed)
    ids = np.stack([rng.permutation(3)[:2] for _ in range(tokens)]).astype(np.int32)
    weights, x = rng.random((tokens, 2), np.float32), activations(seed, tokens, hidden)
    ones = np.ones((3, 3), np.float32)

    def whole(layout, parts):
        return moe_all(ExpertTable(layout, parts, ones, 2), ids, weights, x)[0]

    def pairs(layout, parts):
        y, named = np.zeros((ids.size, hidden), np.float32), np.unique(ids).tolist()
        moe_some(ExpertTable(layout, parts, ones, 2), ids, weights, named, x, y, True)
        return y

    for call in (whole, pairs):
        same(every_way(lambda call=call: call(*fp8)), call(*plain))


def test_addresses_of_scales_are_asked_for():
    (layout, parts), _, _alive = experts(1, 2, 40, 40, "f32", 0)
    ids, one = np.zeros((1, 1), np.int32), np.ones((1, 1), np.float32)
    x, ones = activations(1, 1, 40), np.ones((2, 3), np.float32)
    with pytest.raises(ValueError, match=r"with scales \[experts, 6\]"):
        ExpertTable(layout, np.ascontiguousarray(parts[:, :3]), ones, 2)
    parts[0, 5] = 0
    with pytest.raises(ValueError, match="address"):
        moe_all(ExpertTable(layout, parts, ones, 2), ids, one, x)
    with pytest.raises(ValueError, match="within a block"):
        ExpertTable(ExpertLayout(layout.format, 40, 40, 128), parts, ones, 2)

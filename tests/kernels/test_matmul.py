import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from variants import bits, every_way

from colibri import _native
from colibri.formats.base import decode
from colibri.formats.floats import FloatFormat, float_matrix
from colibri.formats.packed import INT4, narrow_matrix, pack_matrix
from colibri.formats.table import FORMATS
from colibri.kernels.layer import Projector
from colibri.kernels.matmul import embed, matmul, matmul_heads
from colibri.kernels.reference import matmul as reference
from colibri.kernels.reference.packing import to_float32

DTYPES = ("f32", "f16", "bf16")
SCHEMES = ("int3-gs64", "int4-gs64", "int8-gs64")


def cast(w, dtype):
    if dtype == "bf16":
        return (w.view(np.uint32) >> 16).astype(np.uint16)
    return w.astype({"f32": np.float32, "f16": np.float16}[dtype])


def matrix(seed, rows, cols, kind):
    w = np.random.default_rng(seed).standard_normal((rows, cols)).astype(np.float32) / 8
    return float_matrix(cast(w, kind)) if kind in DTYPES else packed_matrix(w, kind)


def packed_matrix(w, scheme):
    if scheme == "int3-gs64":
        return narrow_matrix(pack_matrix(w, INT4))
    return pack_matrix(w, FORMATS[scheme])


def activations(seed, *shape):
    rng = np.random.default_rng(seed + 1)
    x = rng.standard_normal(shape).astype(np.float32)
    x *= np.where(rng.random(shape) < 0.01, 30, 1)  # outliers
    return x.astype(np.float32)


def twin(x, w, planes):
    if isinstance(w.format, FloatFormat):
        return reference.matmul_dense(x, w.data)
    return reference.matmul_packed(x, w.data, w.format.name, w.rows, w.multiplier, planes)


def assert_close(ours, expected):
    np.testing.assert_allclose(ours, expected, rtol=2e-6, atol=2e-6 * np.abs(expected).max())


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    tokens=st.integers(1, 21),
    rows=st.integers(1, 70),
    cols=st.integers(1, 330),
    kind=st.sampled_from(SCHEMES + DTYPES),
    planes=st.sampled_from([1, 2]),
)
def test_matmul_is_its_twin_and_has_the_same_bits_every_way(seed, tokens, rows, cols, kind, planes):
    w, x = matrix(seed, rows, cols, kind), activations(seed, tokens, cols)
    y = every_way(lambda: matmul(x, w, planes))
    assert_close(y, twin(x, w, planes))
    for t in (0, tokens - 1):
        np.testing.assert_array_equal(bits(matmul(x[t : t + 1], w, planes)), bits(y[t : t + 1]))


@pytest.mark.parametrize("kind", SCHEMES)
@pytest.mark.parametrize("cols", [2048, 2049, 4096, 4097])  # the widest that are read in order
def test_few_rows_of_wide_weights_have_the_bits_of_a_batch(kind, cols):
    w, x = matrix(7, 20, cols, kind), activations(7, 9, cols)
    for planes in (1, 2):
        y = every_way(lambda planes=planes: matmul(x, w, planes))
        assert_close(y, twin(x, w, planes))
        for tokens in (1, 2):
            few = every_way(lambda n=tokens, planes=planes: matmul(x[:n], w, planes))
            np.testing.assert_array_equal(bits(few), bits(y[:tokens]))


@pytest.mark.parametrize("kind", SCHEMES + DTYPES)
def test_a_long_batch_has_the_bits_of_its_rows(kind):
    w, x = matrix(3, 100, 192, kind), activations(3, 300, 192)
    y = every_way(lambda: matmul(x, w))
    for t in (0, 127, 128, 299):
        np.testing.assert_array_equal(bits(matmul(x[t : t + 1], w)[0]), bits(y[t]))


@pytest.mark.parametrize(("planes", "bound"), [(1, 3e-2), (2, 1.5e-4)])
def test_error_of_quantised_activations(planes, bound):
    w, x = matrix(4, 64, 1024, "int8-gs64"), activations(4, 8, 1024)
    exact = x @ decode(w).T
    error = np.linalg.norm(matmul(x, w, planes) - exact) / np.linalg.norm(exact)
    assert bound / 50 < error < bound


@pytest.mark.parametrize("scheme", SCHEMES)
def test_extreme_weights_do_not_overflow_the_integer_sums(scheme):
    """All but one weight of a group at the end of its range, and all activations at theirs."""
    sign = np.repeat(np.float32([1, -1]), 16)[:, None]
    w = sign * np.full((32, 128), -8 if scheme == "int8-gs64" else -7, np.float32)
    w[:, ::64] = 8 * sign  # int4: sets the scale, so that the others are stored as 15
    x = np.ones((4, 128), np.float32)
    x[1] *= -1
    x[2, ::2] *= -1
    m = packed_matrix(w, scheme)
    y = every_way(lambda: matmul(x, m))
    assert_close(y, twin(x, m, 2))
    exact = x @ decode(m).T
    np.testing.assert_allclose(y, exact, atol=2e-2)


def test_multiplier_scales_the_result():
    w = matrix(5, 32, 100, "int4-gs64")
    x = activations(5, 3, 100)
    doubled = w.format.matrix(w.rows, w.cols, (w.data,), 2.0 * w.multiplier)
    np.testing.assert_array_equal(matmul(x, doubled), 2 * matmul(x, w))


@pytest.mark.parametrize("kind", SCHEMES + DTYPES)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_non_finite_input_gives_nan_in_its_row_only(kind, value):
    w, x = matrix(6, 40, 130, kind), activations(6, 9, 130)
    clean = matmul(x, w)
    x[4, 129] = value
    y = every_way(lambda: matmul(x, w))
    if kind in SCHEMES:
        assert np.isnan(y[4]).all()
    assert not np.isfinite(y[4]).any()
    rest = np.arange(9) != 4
    np.testing.assert_array_equal(bits(y[rest]), bits(clean[rest]))


@pytest.mark.parametrize("scale", [0.0, 2.0**-130, 2.0**-99, 2.0**120])
def test_tiny_and_huge_inputs(scale):
    w, x = matrix(7, 16, 64, "int8-gs64"), activations(7, 2, 64) * np.float32(scale)
    y = every_way(lambda: matmul(x, w))
    if scale < 2.0**-101:
        assert not y.any()
    else:
        exact = x.astype(np.float64) @ decode(w).T
        np.testing.assert_allclose(y, exact, atol=1e-3 * np.abs(exact).max())


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    tokens=st.integers(1, 9),
    heads=st.integers(1, 4),
    rows=st.integers(1, 40),
    cols=st.integers(1, 200),
    kind=st.sampled_from(SCHEMES + DTYPES),
)
def test_heads_are_separate_products(seed, tokens, heads, rows, cols, kind):
    if kind in SCHEMES:
        rows = -(-rows // 16) * 16  # packed heads are whole blocks
    ws, x = matrix(seed, heads * rows, cols, kind), activations(seed, tokens, heads, cols)
    y = every_way(lambda: matmul_heads(x, ws))
    assert y.shape == (tokens, heads, rows)
    for head in range(heads):
        alone = matmul(np.ascontiguousarray(x[:, head]), head_of(ws, head, rows))
        np.testing.assert_array_equal(bits(y[:, head]), bits(alone))


def head_of(ws, head, rows):
    if isinstance(ws.format, FloatFormat):
        return float_matrix(ws.data[rows * head : rows * (head + 1)])
    size = len(ws.data) // (ws.rows // rows)
    part = ws.data[size * head : size * (head + 1)]
    return ws.format.matrix(rows, ws.cols, (part,), ws.multiplier)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    tokens=st.integers(1, 19),
    cols=st.integers(1, 200),
    parts=st.lists(
        st.tuples(st.integers(1, 90), st.sampled_from(SCHEMES + DTYPES)), min_size=1, max_size=4
    ),
    planes=st.sampled_from([1, 2]),
)
def test_many_products_have_the_bits_of_each(seed, tokens, cols, parts, planes):
    ws = [matrix(seed + i, rows, cols, kind) for i, (rows, kind) in enumerate(parts)]
    x = activations(seed, tokens, cols)
    together = every_way(lambda: np.concatenate(Projector(ws, None, planes)(x), axis=1))
    alone = np.concatenate([matmul(x, w, planes) for w in ws], axis=1)
    np.testing.assert_array_equal(bits(together), bits(alone))


def test_many_long_products_have_the_bits_of_each():
    ws = [matrix(i, rows, 192, kind) for i, rows, kind in ((0, 300, "int4-gs64"), (1, 40, "bf16"))]
    x = activations(14, 300, 192)
    together = every_way(lambda: np.concatenate(Projector(ws)(x), axis=1))
    np.testing.assert_array_equal(bits(together[:, :300]), bits(matmul(x, ws[0])))
    np.testing.assert_array_equal(bits(together[:, 300:]), bits(matmul(x, ws[1])))


def test_many_products_refuse_what_one_does():
    w, x = matrix(15, 48, 64, "int4-gs64"), activations(15, 2, 64)
    with pytest.raises(ValueError, match="inputs"):
        Projector([w, matrix(15, 48, 128, "int4-gs64")])
    with pytest.raises(ValueError, match="planes"):
        Projector([w, w], planes=3)
    with pytest.raises(ValueError, match="one at least"):
        Projector([])
    with pytest.raises(ValueError, match="inputs"):
        Projector([w])(activations(15, 2, 65))
    for wrong in (x[0], x.astype(np.float64)):
        with pytest.raises(TypeError):
            Projector([w])(wrong)
    assert [len(y) for y in Projector([w, w])(x[:0])] == [0, 0]


def test_a_matrix_may_be_dropped_while_its_product_is_used():
    x = activations(16, 1, 64)
    native = matrix(16, 16, 64, "int4-gs64").native
    y = np.empty((1, 16), np.float32)
    _native.matmul(x, native, 2, y)
    np.testing.assert_array_equal(y, matmul(x, matrix(16, 16, 64, "int4-gs64")))


@pytest.mark.parametrize("kind", SCHEMES + DTYPES)
@pytest.mark.parametrize("cols", [1, 63, 200])
def test_embed_gives_the_stored_rows(kind, cols):
    w = matrix(9, 37, cols, kind)
    ids = np.array([36, 0, 5, 5, 16], np.int64)
    if isinstance(w.format, FloatFormat):
        expected = to_float32(w.data)[ids]
    else:
        expected = reference.embed(ids, w.data, w.format.name, 37, cols, w.multiplier)
    np.testing.assert_array_equal(bits(every_way(lambda: embed(ids, w))), bits(expected))


@pytest.mark.parametrize("bad", [-1, 37])
@pytest.mark.parametrize("kind", ["int4-gs64", "bf16"])
def test_embed_refuses_an_unknown_id(kind, bad):
    with pytest.raises(IndexError, match=f"id {bad} is outside 0..36"):
        embed(np.array([0, bad], np.int64), matrix(9, 37, 64, kind))


def test_out_is_filled():
    w, x = matrix(10, 48, 64, "int4-gs64"), activations(10, 2, 64)
    out = np.full((2, 48), np.nan, np.float32)
    assert matmul(x, w, out=out) is out
    np.testing.assert_array_equal(out, matmul(x, w))


def test_no_tokens():
    assert matmul(np.empty((0, 64), np.float32), matrix(11, 16, 64, "int4-gs64")).shape == (0, 16)
    assert matmul(np.empty((0, 64), np.float32), matrix(11, 16, 64, "bf16")).shape == (0, 16)


@pytest.mark.parametrize("kind", ["int4-gs64", "f32"])
def test_wrong_shapes_are_refused(kind):
    w, x = matrix(12, 48, 64, kind), activations(12, 2, 64)
    with pytest.raises(ValueError, match="inputs"):
        matmul(np.ascontiguousarray(x[:, :63]), w)
    with pytest.raises(ValueError, match="tokens"):
        matmul(x[0], w)
    with pytest.raises(ValueError, match="out"):
        matmul(x, w, out=np.empty((2, 47), np.float32))
    with pytest.raises(ValueError, match="heads"):
        matmul_heads(activations(12, 2, 5, 64), w)
    with pytest.raises(TypeError):
        matmul(x.astype(np.float64), w)
    with pytest.raises(TypeError):
        matmul(activations(12, 2, 128)[:, ::2], w)


def test_planes_and_packed_heads_are_checked():
    w, x = matrix(13, 48, 64, "int4-gs64"), activations(13, 2, 64)
    with pytest.raises(ValueError, match="planes"):
        matmul(x, w, planes=3)
    with pytest.raises(ValueError, match="16 rows"):
        matmul_heads(activations(13, 2, 2, 64), w)

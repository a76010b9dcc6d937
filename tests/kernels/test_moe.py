from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from variants import bits, every_way

from colibri.container.spec import body_bytes
from colibri.formats.packed import INT4, narrow_expert, narrow_matrix, pack_expert, pack_matrix
from colibri.formats.table import FORMATS
from colibri.kernels.moe import ExpertLayout, ExpertTable, combine, experts_of, moe_all, moe_some
from colibri.kernels.reference import matmul as reference

PACKED = ("int3-gs64", "int4-gs64", "int8-gs64")
SCHEMES = (*PACKED, "bf16", "f16", "f32")


@dataclass
class Experts:
    layout: ExpertLayout
    weights: list[tuple[np.ndarray, ...]]  # gate, up, down: matrices, or packed bytes
    records: list[np.ndarray]  # keep the memory alive
    parts: np.ndarray
    mults: np.ndarray

    def table(self, planes=2):
        return ExpertTable(self.layout, self.parts, self.mults, planes)

    def twin(self, expert, x, planes, limit=np.inf):
        def product(x, w, i, rows):
            if self.layout.format.name not in PACKED:
                return reference.matmul_dense(x, w)
            mult = self.mults[expert, i]
            return reference.matmul_packed(x, w, self.layout.format.name, rows, mult, planes)

        gate, up, down = self.weights[expert]
        inner, hidden = self.layout.inner, self.layout.hidden
        held = np.minimum(product(x, gate, 0, inner), np.float32(limit))
        act = reference.silu(held) * np.clip(product(x, up, 1, inner), -limit, limit)
        return product(act, down, 2, hidden)


def make_experts(seed, count, hidden, inner, scheme, exponent=0):
    rng = np.random.default_rng(seed)

    def weights(rows, cols):
        return (rng.standard_normal((rows, cols)) * 2.0**exponent / np.sqrt(cols)).astype("f4")

    layout = ExpertLayout(FORMATS[scheme], hidden, inner)
    all_weights, records, parts, mults = [], [], [], []
    for _ in range(count):
        shapes = ((inner, hidden), (inner, hidden), (hidden, inner))
        three = tuple(weights(*shape) for shape in shapes)
        if scheme in PACKED:
            body, m = packed_expert(three, scheme)
            matrices = tuple(packed_matrix(w, scheme).data for w in three)
            base = body.ctypes.data
            parts.append((base, base, base + len(matrices[0]) + len(matrices[1])))
            records.append(body)
            mults.append(m)
            all_weights.append(matrices)
        else:
            stored = tuple(unaligned(store(w, scheme)) for w in three)
            parts.append(tuple(w.__array_interface__["data"][0] for w in stored))
            records.extend(stored)
            mults.append((1.0, 1.0, 1.0))
            all_weights.append(tuple(w.copy() for w in stored))
    return Experts(
        layout, all_weights, records, np.array(parts, np.uint64), np.array(mults, np.float32)
    )


def packed_matrix(w, scheme):
    if scheme == "int3-gs64":
        return narrow_matrix(pack_matrix(w, INT4))
    return pack_matrix(w, FORMATS[scheme])


def packed_expert(three, scheme):
    if scheme != "int3-gs64":
        return pack_expert(*three, FORMATS[scheme])
    body, m = pack_expert(*three, INT4)
    inner, hidden = three[0].shape
    out = np.empty(body_bytes(FORMATS[scheme], hidden, inner), np.uint8)
    factor = narrow_expert(body, INT4, hidden, inner, out)
    return out, tuple(factor * multiplier for multiplier in m)


def store(w, scheme):
    if scheme == "bf16":
        return (w.view(np.uint32) >> 16).astype(np.uint16)
    return w.astype({"f16": np.float16, "f32": np.float32}[scheme])


def unaligned(w):
    """The same array at an odd address, as a tensor inside a file may lie."""
    raw = np.empty(w.nbytes + 1, np.uint8)
    raw[1:] = w.view(np.uint8).reshape(-1)
    return raw[1:].view(w.dtype).reshape(w.shape)


@dataclass
class Routing:
    ids: np.ndarray  # [T, k]
    weights: np.ndarray  # [T, k]

    @property
    def named(self):
        return np.unique(self.ids).tolist()

    def pairs_of(self, expert):
        """Rows, and places among all pairs."""
        row, place = np.nonzero(self.ids == expert)
        return row, row * self.ids.shape[1] + place


def route(seed, tokens, experts, k):
    """Each token goes to k different experts, in any order."""
    rng = np.random.default_rng(seed + 2)
    ids = np.stack([rng.permutation(experts)[:k] for _ in range(tokens)]).astype(np.int32)
    return Routing(ids, rng.random((tokens, k)).astype(np.float32))


def run(e, r, x, planes=2, start_from=None, experts=None, by_pair=False, limit=np.inf):
    rows = r.ids.size if by_pair else len(x)
    y = np.zeros((rows, e.layout.hidden), np.float32) if start_from is None else start_from.copy()
    experts = r.named if experts is None else experts
    moe_some(e.table(planes), r.ids, r.weights, experts, x, y, by_pair, limit)
    return y


def combined(r, pairs):
    y = np.full((len(r.ids), pairs.shape[1]), 7, np.float32)  # must not count
    combine(pairs, r.ids, r.weights, y)
    return y


def activations(seed, tokens, hidden):
    return np.random.default_rng(seed + 1).standard_normal((tokens, hidden)).astype(np.float32)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    tokens=st.integers(1, 12),
    hidden=st.integers(1, 140),
    inner=st.integers(1, 140),
    experts=st.integers(1, 5),
    scheme=st.sampled_from(SCHEMES),
    planes=st.sampled_from([1, 2]),
)
def test_both_forms_are_the_twin_every_way(seed, tokens, hidden, inner, experts, scheme, planes):
    e = make_experts(seed, experts, hidden, inner, scheme)
    r = route(seed, tokens, experts, min(2, experts))
    x, residual = activations(seed, tokens, hidden), activations(seed + 7, tokens, hidden)
    total = every_way(lambda: run(e, r, x, planes, residual))
    alone = every_way(lambda: run(e, r, x, planes, by_pair=True))

    expected = residual.astype(np.float64)
    for i in r.named:
        row, place = r.pairs_of(i)
        out = e.twin(i, x[row], planes)
        scale = max(1.0, float(np.abs(out).max()))
        # One flip of a rounded activation of the inner vector is worth a step of its last plane.
        tolerance = scale * (1e-2 if planes == 1 and scheme in PACKED else 1e-4)
        np.testing.assert_allclose(alone[place], out, atol=tolerance)
        weight = r.weights.ravel()[place, None]
        np.add.at(expected, row, weight * alone[place].astype(np.float64))
    np.testing.assert_allclose(total, expected, rtol=1e-5, atol=1e-5)
    from_zero = run(e, r, x, planes)
    np.testing.assert_array_equal(bits(every_way(lambda: combined(r, alone))), bits(from_zero))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_limit_holds_what_comes_from_gate_and_up(scheme):
    e, r, x = make_experts(8, 3, 150, 70, scheme), route(8, 5, 3, 2), activations(8, 5, 150)
    limit = 0.4  # of values around 1
    alone = every_way(lambda: run(e, r, x, by_pair=True, limit=limit))
    for i in r.named:
        row, place = r.pairs_of(i)
        np.testing.assert_allclose(alone[place], e.twin(i, x[row], 2, limit), atol=1e-4)
    whole = every_way(lambda: moe_all(e.table(), r.ids, r.weights, x, limit)[0])
    np.testing.assert_array_equal(bits(whole), bits(combined(r, alone)))
    assert np.abs(whole - run(e, r, x)).max() > 0.01
    x[2, 3] = np.nan
    assert np.isnan(run(e, r, x, limit=limit)[2]).all()
    with pytest.raises(ValueError, match="limit"):
        run(e, r, x, limit=0.0)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_experts_in_several_calls_have_the_bits_of_one(scheme):
    e, r, x = make_experts(11, 6, 72, 40, scheme), route(11, 9, 6, 3), activations(11, 9, 72)
    whole, alone = run(e, r, x), run(e, r, x, by_pair=True)
    first, rest = r.named[:2], r.named[2:]
    halves = run(e, r, x, start_from=run(e, r, x, experts=first), experts=rest)
    np.testing.assert_array_equal(bits(halves), bits(whole))
    later = run(e, r, x, experts=rest, by_pair=True)
    for i in first:
        assert not later[r.pairs_of(i)[1]].any()
    halves = run(e, r, x, start_from=later, experts=first[::-1], by_pair=True)
    np.testing.assert_array_equal(bits(halves), bits(alone))


def test_the_experts_that_rows_name():
    r = route(3, 400, 30, 6)
    assert experts_of(r.ids, 30) == r.named
    assert experts_of(np.int32([[29, 4]]), 30) == [4, 29]
    assert experts_of(np.empty((0, 4), np.int32), 30) == []


@pytest.mark.parametrize("row", [0, 77, 399])
def test_an_expert_twice_in_any_row_is_refused(row):
    ids = route(3, 400, 30, 6).ids
    ids[row, 5] = ids[row, 2]
    with pytest.raises(ValueError, match="twice in one row"):
        experts_of(ids, 30)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_tokens_bits_do_not_depend_on_its_company(scheme):
    e = make_experts(1, 6, 192, 96, scheme)
    r, x = route(1, 100, 6, 3), activations(1, 100, 192)
    y = every_way(lambda: run(e, r, x))
    for t in (0, 50, 99):
        single = Routing(r.ids[t : t + 1], r.weights[t : t + 1])
        np.testing.assert_array_equal(bits(run(e, single, x[t : t + 1])[0]), bits(y[t]))


@pytest.mark.parametrize("scheme", PACKED)
def test_multipliers_reach_every_matrix(scheme):
    e = make_experts(2, 2, 64, 64, scheme, exponent=-40)
    assert (e.mults < 1).all()
    e.mults *= np.float32([1, 2, 4])  # apart, so that none stands for another
    r, x = route(2, 3, 2, 1), activations(2, 3, 64) * np.float32(2.0**40)
    y = run(e, r, x)
    expected = np.zeros_like(y)
    for i in range(2):
        row, place = r.pairs_of(i)
        expected[row] = r.weights.ravel()[place, None] * e.twin(i, x[row], 2)
    assert np.abs(expected).max() > 0
    np.testing.assert_allclose(y, expected, rtol=1e-3, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_non_finite_token_stays_alone(scheme):
    e = make_experts(3, 3, 100, 70, scheme)
    r, x = route(3, 8, 3, 2), activations(3, 8, 100)
    clean = run(e, r, x)
    x[5, 99] = np.nan
    y = every_way(lambda: run(e, r, x))
    assert np.isnan(y[5]).all()
    rest = np.arange(8) != 5
    np.testing.assert_array_equal(bits(y[rest]), bits(clean[rest]))


def test_experts_that_are_not_run_need_no_address():
    e = make_experts(4, 3, 64, 64, "int4-gs64")
    x, r = activations(4, 1, 64), Routing(np.int32([[2, 1]]), np.ones((1, 2), "f4"))
    expected = run(e, r, x, experts=[1])
    e.parts[[0, 2]] = 0
    np.testing.assert_array_equal(run(e, r, x, experts=[1]), expected)
    with pytest.raises(ValueError, match="address"):
        run(e, r, x, experts=[1, 2])


def test_no_experts_leave_y_alone():
    e, r = make_experts(5, 1, 64, 64, "int4-gs64"), route(5, 2, 1, 1)
    residual = activations(5, 2, 64)
    y = run(e, r, activations(6, 2, 64), 2, residual, experts=[])
    np.testing.assert_array_equal(y, residual)


def test_contradictory_arguments_are_refused():
    e = make_experts(6, 2, 64, 64, "int4-gs64")
    r, x = route(6, 4, 2, 1), activations(6, 4, 64)

    def attempt(message, ids=r.ids, weights=r.weights, x=x, **options):
        with pytest.raises(ValueError, match=message):
            run(e, Routing(ids, weights), x, **options)

    attempt("outside", ids=r.ids + 2)
    attempt("outside", ids=r.ids - 2)
    attempt("twice", ids=np.zeros((4, 2), np.int32), weights=np.ones((4, 2), "f4"))
    attempt("tokens, k", ids=r.ids[:3])
    attempt("tokens, k", weights=r.weights[:, :0])
    attempt("no row names", experts=[2])
    attempt("no row names", experts=[-1])
    attempt("tokens, hidden", x=activations(6, 4, 65))
    attempt("planes", planes=0)
    attempt("y has the wrong shape", start_from=np.zeros((4, 63), np.float32))
    attempt("y has the wrong shape", start_from=np.zeros((3, 64), np.float32))
    attempt("y has the wrong shape", start_from=np.zeros((3, 64), np.float32), by_pair=True)


def test_combine_checks_its_arguments():
    r, pairs = route(7, 3, 4, 2), activations(7, 6, 40)
    with pytest.raises(ValueError, match="pairs has the wrong shape"):
        combine(pairs[:5], r.ids, r.weights, np.zeros((3, 40), np.float32))
    with pytest.raises(ValueError, match="pairs has the wrong shape"):
        combine(pairs, r.ids, r.weights, np.zeros((3, 41), np.float32))
    with pytest.raises(ValueError, match="tokens, k"):
        combine(pairs, r.ids, r.weights, np.zeros((2, 40), np.float32))


def test_calls_from_several_threads_do_not_mix():
    e, r = make_experts(8, 4, 128, 128, "int4-gs64"), route(8, 6, 4, 2)
    inputs = [activations(i, 6, 128) for i in range(8)]
    expected = [run(e, r, x) for x in inputs]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda x: run(e, r, x), inputs * 5))
    for i, y in enumerate(results):
        np.testing.assert_array_equal(bits(y), bits(expected[i % 8]))


def test_working_memory_is_reused_from_small_to_large_to_small():
    e = make_experts(9, 2, 64, 64, "int8-gs64")
    small, large = route(9, 1, 2, 2), route(9, 20000, 2, 2)  # 11 MB of working memory
    x = activations(9, 20000, 64)
    first = run(e, small, x[:1])
    np.testing.assert_array_equal(run(e, large, x)[19999:], run(e, small_of(large), x[19999:]))
    np.testing.assert_array_equal(bits(run(e, small, x[:1])), bits(first))


def small_of(r):
    """The routing of the last token, alone."""
    return Routing(r.ids[-1:], r.weights[-1:])


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("rows", [1, 5])
def test_all_at_once_has_the_bits_of_the_accumulating_form(scheme, rows):
    e, r, x = make_experts(3, 7, 72, 40, scheme), route(rows, rows, 7, 3), activations(3, rows, 72)
    y = every_way(lambda: moe_all(e.table(), r.ids, r.weights, x)[0])
    assert (bits(y) == bits(run(e, r, x))).all()
    assert moe_all(e.table(), r.ids, r.weights, x)[1] == len(r.named)


@pytest.mark.parametrize(
    ("ids", "message"),
    [([[0, 0]], "twice"), ([[0, 7]], "outside"), ([[-1, 2]], "outside"), ([[0, 3]], "address")],
)
def test_all_at_once_refuses_what_it_cannot_run(ids, message):
    experts = make_experts(0, 4, 64, 64, "f32")
    experts.parts[3] = 0
    x, weights = np.ones((1, 64), "f4"), np.ones((1, 2), "f4")
    with pytest.raises(ValueError, match=message):
        moe_all(experts.table(), np.array(ids, np.int32), weights, x)

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from variants import bits, every_way

from colibri.kernels import packing
from colibri.kernels.moe import ExpertLayout, combine, moe, moe_all
from colibri.kernels.reference import matmul as reference

PACKED = ("int4-gs64", "int8-gs64")
SCHEMES = (*PACKED, "bf16", "f16", "f32")


@dataclass
class Experts:
    layout: ExpertLayout
    weights: list[tuple[np.ndarray, ...]]  # gate, up, down: matrices, or packed bytes
    records: list[np.ndarray]  # keep the memory alive
    parts: np.ndarray
    mults: np.ndarray

    def twin(self, expert, x, planes):
        def product(x, w, i, rows):
            if self.layout.scheme not in PACKED:
                return reference.matmul_dense(x, w)
            mult = self.mults[expert, i]
            return reference.matmul_packed(x, w, self.layout.scheme, rows, mult, planes)

        gate, up, down = self.weights[expert]
        inner, hidden = self.layout.inner, self.layout.hidden
        act = reference.silu(product(x, gate, 0, inner)) * product(x, up, 1, inner)
        return product(act, down, 2, hidden)


def make_experts(seed, count, hidden, inner, scheme, exponent=0):
    rng = np.random.default_rng(seed)

    def weights(rows, cols):
        return (rng.standard_normal((rows, cols)) * 2.0**exponent / np.sqrt(cols)).astype("f4")

    layout = ExpertLayout(scheme, hidden, inner)
    all_weights, records, parts, mults = [], [], [], []
    for _ in range(count):
        shapes = ((inner, hidden), (inner, hidden), (hidden, inner))
        three = tuple(weights(*shape) for shape in shapes)
        if scheme in PACKED:
            body, m = packing.pack_expert(*three, scheme)
            matrices = tuple(packing.pack_matrix(w, scheme).data for w in three)
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
class Pairs:
    start: np.ndarray
    row: np.ndarray
    weight: np.ndarray
    order: np.ndarray  # [T, k]
    weights: np.ndarray  # [T, k], of ascending experts


def route(seed, tokens, experts, k):
    """Each token goes to k different experts."""
    rng = np.random.default_rng(seed + 2)
    chosen = np.stack([np.sort(rng.permutation(experts)[:k]) for _ in range(tokens)])
    weights = rng.random((tokens, k)).astype(np.float32)
    by_expert = [(e, t, j) for t in range(tokens) for j, e in enumerate(chosen[t])]
    by_expert.sort()
    start = np.searchsorted([e for e, _, _ in by_expert], np.arange(experts + 1))
    order = np.full((tokens, k), -1, np.int64)
    for p, (_, t, j) in enumerate(by_expert):
        order[t, j] = p
    row = np.array([t for _, t, _ in by_expert], np.int64)
    weight = np.array([weights[t, j] for _, t, j in by_expert], np.float32)
    return Pairs(start.astype(np.int64), row, weight, order, weights)


def run(e, p, x, planes=2, start_from=None, pair_out=None):
    rows = len(x) if pair_out is None else len(p.row)
    y = np.zeros((rows, e.layout.hidden), np.float32) if start_from is None else start_from.copy()
    moe(e.layout, e.parts, e.mults, p.start, p.row, p.weight, x, planes, y, pair_out)
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
    p = route(seed, tokens, experts, min(2, experts))
    x, residual = activations(seed, tokens, hidden), activations(seed + 7, tokens, hidden)
    total = every_way(lambda: run(e, p, x, planes, residual))
    slots = np.arange(len(p.row), dtype=np.int64)[::-1].copy()
    alone = every_way(lambda: run(e, p, x, planes, pair_out=slots))[slots]

    expected = residual.astype(np.float64)
    for i in range(experts):
        span = slice(p.start[i], p.start[i + 1])
        if span.start == span.stop:
            continue
        out = e.twin(i, x[p.row[span]], planes)
        scale = max(1.0, float(np.abs(out).max()))
        # One flip of a rounded activation of the inner vector is worth a step of its last plane.
        tolerance = scale * (1e-2 if planes == 1 and scheme in PACKED else 1e-4)
        np.testing.assert_allclose(alone[span], out, atol=tolerance)
        np.add.at(expected, p.row[span], p.weight[span, None] * alone[span].astype(np.float64))
    np.testing.assert_allclose(total, expected, rtol=1e-5, atol=1e-5)

    def combined():
        y = residual.copy()
        combine(alone, p.order, p.weights, y)
        return y

    np.testing.assert_array_equal(bits(every_way(combined)), bits(total))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_tokens_bits_do_not_depend_on_its_company(scheme):
    e = make_experts(1, 6, 192, 96, scheme)
    p, x = route(1, 100, 6, 3), activations(1, 100, 192)
    y = every_way(lambda: run(e, p, x))
    for t in (0, 50, 99):
        mine = p.order[t]
        owner = np.searchsorted(p.start, mine, side="right") - 1
        start = np.searchsorted(owner, np.arange(7)).astype(np.int64)
        single = Pairs(start, np.zeros(3, np.int64), p.weights[t], p.order, p.weights)
        np.testing.assert_array_equal(bits(run(e, single, x[t : t + 1])[0]), bits(y[t]))


@pytest.mark.parametrize("scheme", PACKED)
def test_multipliers_reach_every_matrix(scheme):
    e = make_experts(2, 2, 64, 64, scheme, exponent=-40)
    assert (e.mults < 1).all()
    e.mults *= np.float32([1, 2, 4])  # apart, so that none stands for another
    p, x = route(2, 3, 2, 1), activations(2, 3, 64) * np.float32(2.0**40)
    y = run(e, p, x)
    expected = np.zeros_like(y)
    for i in range(2):
        span = slice(p.start[i], p.start[i + 1])
        expected[p.row[span]] = p.weight[span, None] * e.twin(i, x[p.row[span]], 2)
    assert np.abs(expected).max() > 0
    np.testing.assert_allclose(y, expected, rtol=1e-3, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_non_finite_token_stays_alone(scheme):
    e = make_experts(3, 3, 100, 70, scheme)
    p, x = route(3, 8, 3, 2), activations(3, 8, 100)
    clean = run(e, p, x)
    x[5, 99] = np.nan
    y = every_way(lambda: run(e, p, x))
    assert np.isnan(y[5]).all()
    rest = np.arange(8) != 5
    np.testing.assert_array_equal(bits(y[rest]), bits(clean[rest]))


def test_experts_without_pairs_need_no_address():
    e = make_experts(4, 3, 64, 64, "int4-gs64")
    x = activations(4, 1, 64)
    p = Pairs(np.int64([0, 0, 1, 1]), np.int64([0]), np.float32([1]), np.empty(0), np.empty(0))
    expected = run(e, p, x)
    e.parts[[0, 2]] = 0
    np.testing.assert_array_equal(run(e, p, x), expected)
    e.parts[1, 2] = 0
    with pytest.raises(ValueError, match="address"):
        run(e, p, x)


def test_no_pairs_leave_y_alone():
    e = make_experts(5, 1, 64, 64, "int4-gs64")
    empty = Pairs(np.zeros(2, np.int64), np.empty(0, np.int64), np.empty(0, "f4"), None, None)
    residual = activations(5, 2, 64)
    np.testing.assert_array_equal(run(e, empty, activations(6, 2, 64), 2, residual), residual)


def test_contradictory_arguments_are_refused():
    e = make_experts(6, 2, 64, 64, "int4-gs64")
    p, x = route(6, 4, 2, 1), activations(6, 4, 64)

    def attempt(message, **changes):
        with pytest.raises(ValueError, match=message):
            run(e, Pairs(**{**vars(p), **changes}), x)

    attempt("pair_row is outside", row=p.row + 4)
    attempt("pair_row is outside", row=p.row - 4)
    attempt("ascend", start=p.start[::-1].copy())
    attempt("ascend", start=p.start + 1)
    attempt("one entry more", start=p.start[:-1].copy())
    attempt("length", weight=p.weight[:-1].copy())
    with pytest.raises(ValueError, match="tokens"):
        run(e, p, activations(6, 4, 65))
    with pytest.raises(ValueError, match="planes"):
        run(e, p, x, planes=0)
    with pytest.raises(ValueError, match="pair_out is outside"):
        run(e, p, x, pair_out=np.arange(1, 5, dtype=np.int64))
    with pytest.raises(ValueError, match="y has the wrong shape"):
        run(e, p, x, start_from=np.zeros((4, 63), np.float32))


def test_combine_skips_missing_pairs_and_checks_its_arguments():
    pairs, weights = activations(7, 3, 40), np.float32([[2, 1], [3, 1]])
    y = np.zeros((2, 40), np.float32)
    combine(pairs, np.int64([[1, -1], [-1, 2]]), weights, y)
    np.testing.assert_array_equal(y, np.stack([2 * pairs[1], pairs[2]]))
    with pytest.raises(ValueError, match="outside"):
        combine(pairs, np.int64([[3, -1], [-1, 2]]), weights, y)
    with pytest.raises(ValueError, match="width"):
        combine(pairs, np.int64([[1, -1], [-1, 2]]), weights, np.zeros((2, 41), np.float32))


def test_calls_from_several_threads_do_not_mix():
    e, p = make_experts(8, 4, 128, 128, "int4-gs64"), route(8, 6, 4, 2)
    inputs = [activations(i, 6, 128) for i in range(8)]
    expected = [run(e, p, x) for x in inputs]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda x: run(e, p, x), inputs * 5))
    for i, y in enumerate(results):
        np.testing.assert_array_equal(bits(y), bits(expected[i % 8]))


def test_working_memory_is_reused_from_small_to_large_to_small():
    e = make_experts(9, 2, 64, 64, "int8-gs64")
    small, large = route(9, 1, 2, 2), route(9, 20000, 2, 2)  # 11 MB of working memory
    x = activations(9, 20000, 64)
    first = run(e, small, x[:1])
    np.testing.assert_array_equal(run(e, large, x)[19999:], run(e, small_of(large), x[19999:]))
    np.testing.assert_array_equal(bits(run(e, small, x[:1])), bits(first))


def small_of(p):
    """The pairs of the last token, alone: it visits both experts."""
    return Pairs(np.int64([0, 1, 2]), np.int64([0, 0]), p.weights[-1], None, None)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("rows", [1, 5])
def test_all_at_once_has_the_bits_of_the_accumulating_form(scheme, rows):
    experts = make_experts(3, 7, 72, 40, scheme)
    rng = np.random.default_rng(rows)
    x = rng.standard_normal((rows, 72)).astype("f4")
    ids = np.array([rng.permutation(7)[:3] for _ in range(rows)], np.int32)
    weights = rng.random((rows, 3)).astype("f4")
    expected = np.zeros_like(x)
    for expert in range(7):
        row, place = map(np.ascontiguousarray, np.nonzero(ids == expert))
        if row.size:
            start = np.array([0, row.size])
            parts, mults = experts.parts[[expert]], experts.mults[[expert]]
            chosen = weights[row, place]
            moe(experts.layout, parts, mults, start, row, chosen, x, 2, expected, None)
    tables = experts.parts, experts.mults
    y = every_way(lambda: moe_all(experts.layout, *tables, ids, weights, x, 2)[0])
    assert (bits(y) == bits(expected)).all()
    assert moe_all(experts.layout, *tables, ids, weights, x, 2)[1] == len(np.unique(ids))


@pytest.mark.parametrize(
    ("ids", "message"),
    [([[0, 0]], "twice"), ([[0, 7]], "outside"), ([[-1, 2]], "outside"), ([[0, 3]], "address")],
)
def test_all_at_once_refuses_what_it_cannot_run(ids, message):
    experts = make_experts(0, 4, 64, 64, "f32")
    experts.parts[3] = 0
    x, weights = np.ones((1, 64), "f4"), np.ones((1, 2), "f4")
    tables = experts.parts, experts.mults
    with pytest.raises(ValueError, match=message):
        moe_all(experts.layout, *tables, np.array(ids, np.int32), weights, x, 2)

"""The calls that stand for several: the bits of those, on every CPU path and number of threads."""

import gc
import sys

import numpy as np
import pytest
from bits import assert_same, everywhere, normal

from colibri.formats.floats import float_matrix
from colibri.formats.packed import pack_matrix
from colibri.formats.table import FORMATS
from colibri.kernels import layer, ops, routing
from colibri.kernels.attention import attend
from colibri.kernels.matmul import matmul
from colibri.kernels.reference import layer as ref

HIDDEN, EPS = 96, 1e-6


def weights(seed: int, rows: int, cols: int):
    return normal(seed, rows, cols, scale=cols**-0.5)


def stored(w, kind: str):
    return float_matrix(w) if kind == "f32" else pack_matrix(w, FORMATS[kind])


def normed_sum(x, y, w):
    x = x.copy()
    return x, ops.rms_norm(x, w, EPS) if y is None else ops.add_rms_norm(x, y.copy(), w, EPS)


@pytest.mark.parametrize("kind", ["f32", "int4-gs64", "int8-gs64"])
@pytest.mark.parametrize("summand", [True, False])
@pytest.mark.parametrize("rows", [1, 5])
def test_norm_and_projections(rows, summand, kind):
    x, w = normal(1, rows, HIDDEN), normal(2, HIDDEN)
    y = normal(3, rows, HIDDEN) if summand else None
    ws = [stored(weights(i, n, HIDDEN), kind) for i, n in ((4, 40), (5, 16))]
    biases = [None, normal(6, 16)]
    projector, norm = layer.Projector(ws, biases, 1), layer.norm(w, EPS)

    def run():
        own = x.copy()
        h, outs = projector.normed(own, None if y is None else y.copy(), norm)
        return own, h, *outs

    stream, h = normed_sum(x, y, w)
    outs = [matmul(h, one, 1) for one in ws]
    assert_same(everywhere(run), (stream, h, outs[0], outs[1] + biases[1]))
    assert_same(tuple(projector(h)), (outs[0], outs[1] + biases[1]))


def test_norm_and_projections_match_the_reference():
    x, norm = normal(1, 3, HIDDEN), ref.Norm(normal(2, HIDDEN), EPS)
    ws, biases = [weights(3, 20, HIDDEN), weights(4, 7, HIDDEN)], [normal(5, 20), None]
    projector = layer.Projector([float_matrix(w) for w in ws], biases)
    _, outs = projector.normed(x, None, layer.norm(norm.weight, EPS))
    for got, want in zip(outs, ref.project(norm(x), ws, biases), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", ["f32", "int4-gs64"])
def test_swiglu(kind):
    x = normal(1, 4, HIDDEN)
    plain = [weights(2, 48, HIDDEN), weights(3, 48, HIDDEN), weights(4, HIDDEN, 48)]
    gate, up, down = (stored(w, kind) for w in plain)
    both, last = layer.Projector([gate, up]), layer.Projector([down])
    got = everywhere(lambda: layer.swiglu(x, both, last))
    assert_same(got, matmul(ops.silu_mul(matmul(x, gate), matmul(x, up)), down))
    limited = everywhere(lambda: layer.swiglu(x, both, last, 0.3))
    middle = ops.silu_mul(matmul(x, gate), matmul(x, up), limit=0.3)
    assert_same(limited, matmul(middle, down))
    assert (limited != got).any()
    if kind == "f32":
        np.testing.assert_allclose(got, ref.swiglu(x, *plain), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(limited, ref.swiglu(x, *plain, 0.3), rtol=1e-4, atol=1e-5)


class Case:
    """Attention over sequences with so many positions before and in the step."""

    def __init__(self, before, rows, heads=4, kv_heads=2, dim=16, **switches):
        self.sizes = heads, kv_heads, dim
        self.switches, self.before = switches, before
        self.stops = np.cumsum(rows).tolist()
        n, kv = sum(rows), kv_heads * dim
        self.x, self.y, self.w = normal(1, n, HIDDEN), normal(2, n, HIDDEN), normal(3, HIDDEN)
        widths = (heads * dim * (2 if switches.get("gated") else 1), kv, kv)
        self.qkv = [weights(4 + i, width, HIDDEN) for i, width in enumerate(widths)]
        self.biases = [normal(7 + i, width) for i, width in enumerate(widths)]
        self.o = weights(10, HIDDEN, heads * dim)
        steps = [np.arange(b, b + r) for b, r in zip(before, rows, strict=True)]
        self.positions = np.concatenate(steps)
        frequencies = np.float32(0.3) ** np.arange(dim // 2, dtype=np.float32)
        self.tables = ops.rope_table(self.positions, frequencies)
        capacity = max(b + r for b, r in zip(before, rows, strict=True)) + 3
        shape = capacity, kv_heads, dim
        self.caches = [(normal(20 + i, *shape), normal(30 + i, *shape)) for i in range(len(before))]

    def norms(self, make):
        heads, kv_heads, dim = self.sizes
        norms = {k: v for k, v in self.switches.items() if k == "norm_per_head"}
        if norms:
            lengths = (dim, dim) if norms["norm_per_head"] else (heads * dim, kv_heads * dim)
            norms |= {"q_norm": make(normal(11, lengths[0]), EPS)}
            norms |= {"k_norm": make(normal(12, lengths[1]), EPS)}
        return self.switches | norms

    def fused(self, kind="f32", y=None):
        heads, kv_heads, dim = self.sizes
        qkv = layer.Projector([stored(w, kind) for w in self.qkv], self.biases)
        kernel = layer.GroupedAttention(
            qkv,
            layer.Projector([stored(self.o, kind)]),
            layer=1,
            heads=heads,
            kv_heads=kv_heads,
            head_dim=dim,
            **self.norms(layer.norm),
        )
        norm = layer.norm(self.w, EPS)

        def run():
            x, caches = self.x.copy(), [(k.copy(), v.copy()) for k, v in self.caches]
            own = [[None, layer.key_values(*pair)] for pair in caches]
            for (_, cache), before in zip(own, self.before, strict=True):
                cache.length = before
            rows = layer.step_rows(self.positions, self.stops, *self.tables, own)
            summand = None if y is None else y.copy()
            out = kernel(x, summand, norm, rows)
            self.lengths = [cache.length for _, cache in own]
            return x, out, *(buffer for pair in caches for buffer in pair)

        return run

    def single(self, kind="f32", y=None):
        """The same in the calls that there were before."""
        heads, kv_heads, dim = self.sizes
        switches = self.norms(lambda w, eps: lambda x: ops.rms_norm(x, w, eps))
        x, h = normed_sum(self.x, y, self.w)
        parts = zip(self.qkv, self.biases, (heads, kv_heads, kv_heads), "qkv", strict=True)
        prepared = []
        for w, bias, count, name in parts:
            p, norm = matmul(h, stored(w, kind)) + bias, switches.get(f"{name}_norm")
            if name == "q" and switches.get("gated"):
                p, gate = np.split(p.reshape(len(p), heads, 2 * dim), 2, 2)
                p = np.ascontiguousarray(p).reshape(len(p), -1)
            per_head = switches.get("norm_per_head")
            p = norm(p) if norm and not per_head else p
            if (clip := switches.get("clip")) is not None:
                p = np.clip(p, -np.float32(clip), np.float32(clip))
            p = p.reshape(len(p), count, dim)
            prepared.append(norm(p) if norm and per_head else p)
        q, k, v = prepared
        for p in (q, k):
            ops.apply_rope(p, *self.tables, 0, switches.get("interleaved", False))
        out, buffers, start = np.empty_like(q), [], 0
        for (keys, values), before, stop in zip(self.caches, self.before, self.stops, strict=True):
            keys, values, own = keys.copy(), values.copy(), slice(start, stop)
            end = before + stop - start
            keys[before:end], values[before:end] = k[own], v[own]
            window = switches.get("window")
            out[own] = attend(
                q[own], keys[:end], values[:end], self.positions[own], dim**-0.5, window=window
            )
            buffers += [keys, values]
            start = stop
        if switches.get("gated"):
            out *= ops.sigmoid(np.ascontiguousarray(gate))
        return x, matmul(out.reshape(len(x), -1), stored(self.o, kind)), *buffers


@pytest.mark.parametrize("kind", ["f32", "int4-gs64"])
@pytest.mark.parametrize(
    "switches",
    [
        {},
        {"clip": 0.5},
        {"norm_per_head": True, "clip": 0.7, "window": 5},
        {"norm_per_head": False, "clip": 0.7},
        {"interleaved": True, "window": 70},
        {"norm_per_head": True, "gated": True},
    ],
    ids=str,
)
@pytest.mark.parametrize(("before", "rows"), [([0], [1]), ([70], [9]), ([3, 130, 0], [1, 2, 70])])
def test_grouped_attention(before, rows, switches, kind):
    case = Case(before, rows, **switches)
    for y in (None, case.y):
        assert_same(everywhere(case.fused(kind, y)), case.single(kind, y))
        assert case.lengths == [b + r for b, r in zip(before, rows, strict=True)]


def test_many_heads_a_group_are_attended_in_place():
    case = Case([90], [3], heads=80, kv_heads=1, dim=8)
    assert_same(everywhere(case.fused(), threads=(1, 2, 4)), case.single())


@pytest.mark.parametrize("gated", [False, True])
def test_grouped_attention_matches_the_reference(gated):
    case = Case([5, 0], [2, 6], norm_per_head=True, clip=0.8, window=4, gated=gated)
    heads = ref.Heads(*case.sizes, **case.norms(ref.Norm))
    want = ref.grouped_attention(
        case.x,
        ref.Norm(case.w, EPS),
        case.qkv,
        case.biases,
        heads,
        case.o,
        case.positions,
        *case.tables,
        [(k[:n], v[:n]) for (k, v), n in zip(case.caches, case.before, strict=True)],
        case.stops,
    )
    np.testing.assert_allclose(case.fused()()[1], want, rtol=1e-4, atol=1e-4)


def test_what_is_not_finite_is_not_clipped_away():
    case = Case([0], [2], clip=0.5)
    case.biases[2][3] = np.nan
    assert_same(case.fused()(), case.single())
    assert np.isnan(case.fused()()[1]).all()


@pytest.mark.parametrize("rows", [1, 6])
@pytest.mark.parametrize("sigmoid", [False, True])
def test_norm_and_route(sigmoid, rows):
    x, y, w = normal(1, rows, HIDDEN), normal(2, rows, HIDDEN), normal(3, HIDDEN)
    gate, bias = float_matrix(weights(4, 24, HIDDEN)), normal(5, 24)
    rule = (
        layer.sigmoid_rule(bias, 3, 4, 2, True, 2.5) if sigmoid else layer.softmax_rule(24, 3, True)
    )

    def run():
        own, projector = x.copy(), layer.Projector([gate])
        h, choice = layer.norm_route(own, y.copy(), layer.norm(w, EPS), projector, rule, 3)
        return own, h, *choice

    stream, h = normed_sum(x, y, w)
    logits = matmul(h, gate)
    if sigmoid:
        choice = routing.sigmoid_topk(logits, bias, 3, 4, 2, True, 2.5)
    else:
        choice = routing.softmax_topk(logits, 3, True)
    assert_same(everywhere(run), (stream, h, *choice))


def test_routing_names_the_row_that_is_not_finite():
    x, gate = normal(1, 3, HIDDEN), layer.Projector([float_matrix(weights(2, 8, HIDDEN))])
    x[1, 5] = np.inf
    norm, rule = layer.norm(normal(3, HIDDEN), EPS), layer.softmax_rule(8, 2, False)
    with pytest.raises(ValueError, match="row 1: a router logit is not finite"):
        layer.norm_route(x, None, norm, gate, rule, 2)
    with pytest.raises(ValueError, match="does not fit x and the rule"):
        layer.norm_route(x, None, norm, gate, layer.softmax_rule(9, 2, False), 2)
    with pytest.raises(ValueError, match="bias of expert 2 is not finite"):
        layer.sigmoid_rule(np.array([0, 1, np.nan, 1], np.float32), 1, 2, 1, True, 1.0)
    with pytest.raises(ValueError, match="k must be"):
        layer.softmax_rule(8, 9, False)


def test_a_cache_that_is_full_or_another_is_refused():
    full = Case([8, 0], [2, 1])
    full.caches = [(k[:9].copy(), v[:9].copy()) for k, v in full.caches]
    with pytest.raises(IndexError, match="cache of 9 positions cannot hold 10"):
        full.fused()()
    case = Case([4, 0], [2, 1])
    case.before = [5, 0]
    with pytest.raises(ValueError, match="go on where its cache ends"):
        case.fused()()
    case = Case([4], [2])
    case.caches = [(normal(1, 9, 2, 8), normal(2, 9, 2, 8))]
    with pytest.raises(ValueError, match="other heads"):
        case.fused()()


def test_rows_of_a_step_are_checked():
    tables = np.ones((3, 4), np.float32), np.ones((3, 4), np.float32)
    positions = np.array([4, 5, 0])
    caches = [[None], [None]]
    rows = layer.step_rows(positions, [2, 3], *tables, caches)
    with pytest.raises(ValueError, match="consecutive"):
        layer.step_rows(positions, [3], *tables, caches[:1])
    with pytest.raises(ValueError, match="last row"):
        layer.step_rows(positions, [2], *tables, caches[:1])
    with pytest.raises(ValueError, match="must have a row"):
        layer.step_rows(positions, [2, 2, 3], *tables, [*caches, []])
    with pytest.raises(ValueError, match="negative"):
        layer.step_rows(positions - 1, [2, 3], *tables, caches)
    with pytest.raises(ValueError, match="half"):
        layer.step_rows(positions, [2, 3], tables[0], tables[1][:, :2].copy(), caches)
    with pytest.raises(ValueError, match="a list of caches a sequence"):
        layer.step_rows(positions, [2, 3], *tables, caches[:1])
    qkv = [float_matrix(weights(i, 8, HIDDEN)) for i in range(3)]
    o_proj = layer.Projector([float_matrix(weights(4, HIDDEN, 8))])
    kernel = layer.GroupedAttention(
        layer.Projector(qkv), o_proj, layer=0, heads=1, kv_heads=1, head_dim=8
    )
    with pytest.raises(ValueError, match="no such cache"):
        kernel(normal(1, 3, HIDDEN), None, layer.norm(normal(2, HIDDEN), EPS), rows)


def test_caches_live_as_long_as_the_rows_of_a_step():
    case = Case([4], [2])
    keys, values = case.caches[0]
    cache = layer.key_values(keys, values)
    cache.length = 4
    rows = layer.step_rows(case.positions, case.stops, *case.tables, [[cache]])
    before = sys.getrefcount(keys)
    del cache
    assert sys.getrefcount(keys) == before
    del rows
    gc.collect()
    assert sys.getrefcount(keys) < before


def test_bad_shapes_are_refused():
    w, norm = float_matrix(weights(1, 8, HIDDEN)), layer.norm(normal(2, HIDDEN), EPS)
    x = normal(3, 2, HIDDEN)
    with pytest.raises(ValueError, match="two arrays"):
        layer.Projector([w]).normed(x, x, norm)
    with pytest.raises(ValueError, match="shape of x"):
        layer.Projector([w]).normed(x, x[:1].copy(), norm)
    with pytest.raises(ValueError, match="length of x's rows"):
        layer.Projector([w]).normed(x, None, layer.norm(normal(2, 7), EPS))
    with pytest.raises(ValueError, match="weight's rows"):
        layer.Projector([w], [normal(1, 7)])
    with pytest.raises(ValueError, match="down does not fit"):
        layer.swiglu(x, layer.Projector([w, w]), layer.Projector([w]))
    case = Case([0], [1])
    case.qkv[1], case.biases[1] = case.qkv[0], case.biases[0]
    with pytest.raises(ValueError, match="do not fit the heads"):
        case.fused()()

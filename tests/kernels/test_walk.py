"""Several layers in one call: the bits of their calls in turn, while the experts are at hand."""

import numpy as np
import pytest
from bits import assert_same, everywhere, normal
from test_routed import EPS, EXPERTS, HIDDEN, K, Layer

from colibri import _native
from colibri.formats.packed import INT8, pack_matrix
from colibri.kernels import layer, ops
from colibri.kernels.walk import Walk

HEADS, DIM, LAYERS = 4, 32, 3
BEFORE = [5, 0]  # positions of each sequence's state


def weights(seed, rows, cols):
    return pack_matrix(normal(seed, rows, cols, scale=cols**-0.5), INT8)


class Layers:
    def __init__(self, patience=60):
        self.routed = [Layer() for _ in range(LAYERS)]
        self.norms = [layer.norm(normal(60 + i, HIDDEN), EPS) for i in range(LAYERS)]
        self.attention = [
            layer.GroupedAttention(
                layer.Projector([weights(70 + 4 * i + j, HEADS * DIM, HIDDEN) for j in range(3)]),
                layer.Projector([weights(73 + 4 * i, HIDDEN, HEADS * DIM)]),
                layer=i,
                heads=HEADS,
                kv_heads=HEADS,
                head_dim=DIM,
            )
            for i in range(LAYERS)
        ]
        parts = zip(self.norms, self.attention, self.routed, strict=True)
        self.walk = Walk(
            [(norm, attention, r.norm, r.routed) for norm, attention, r in parts], patience
        )

    def step(self):
        """Rows of a token of each sequence, and their caches."""
        positions = np.array(BEFORE)
        frequencies = np.float32(0.3) ** np.arange(DIM // 2, dtype=np.float32)
        shape = 8, HEADS, DIM
        caches = [
            [
                layer.key_values(normal(9 * n + i, *shape), normal(50 + 9 * n + i, *shape))
                for i in range(LAYERS)
            ]
            for n in range(len(BEFORE))
        ]
        for mine, before in zip(caches, BEFORE, strict=True):
            for cache in mine:
                cache.length = before
        tables = ops.rope_table(positions, frequencies)
        stops = [n + 1 for n in range(len(BEFORE))]
        return layer.step_rows(positions, stops, *tables, caches), caches

    def in_turn(self, x, y, rows, first=0, stop=LAYERS):
        choices = []
        for i in range(first, stop):
            y = self.attention[i](x, y, self.norms[i], rows)
            _, choice, y, named, _ = self.routed[i].routed(x, y, self.routed[i].norm)
            assert named
            choices.append(choice)
        return y, choices


def inputs(summand):
    rows = len(BEFORE)
    return normal(1, rows, HIDDEN), normal(2, rows, HIDDEN) if summand else None


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("summand", [True, False])
def test_layers_in_one_call_have_the_bits_of_their_calls(first, summand):
    case, (x, y) = Layers(), inputs(summand)

    def once():
        own, mine = x.copy(), None if y is None else y.copy()
        rows, caches = case.step()
        done = case.walk(first, own, mine, rows)
        assert (done.layers, done.begun, done.bad_row) == (LAYERS - first, LAYERS - first, -1)
        assert [[c.length for c in kept[first:]] for kept in caches] == [
            [before + 1] * (LAYERS - first) for before in BEFORE
        ]
        return own, done.y, done.ids, done.weights, done.named

    own, mine = x.copy(), None if y is None else y.copy()
    out, choices = case.in_turn(own, mine, case.step()[0], first)
    ids, shares = (np.stack(part) for part in zip(*choices, strict=True))
    named = np.array([len(np.unique(one)) for one in ids])
    assert_same(everywhere(once), (own, out, ids, shares, named))


def test_without_patience_a_call_walks_one_layer():
    case, (x, y) = Layers(patience=0), inputs(True)
    own, rows = x.copy(), case.step()[0]
    out, _ = case.in_turn(own, y.copy(), rows)
    mine, left, rows = x.copy(), y.copy(), case.step()[0]
    for i in range(LAYERS):
        done = case.walk(i, mine, left, rows)
        assert (done.layers, done.begun, done.bad_row) == (1, 1, -1)
        left = done.y
    assert_same((mine, left), (own, out))


@pytest.mark.parametrize("missing", range(LAYERS))
def test_a_walk_ends_where_an_expert_is_missing(missing):
    case, (x, y) = Layers(), inputs(True)
    own, rows = x.copy(), case.step()[0]
    before, _ = case.in_turn(own, y.copy(), rows, 0, missing)
    summed = case.attention[missing](own, before, case.norms[missing], rows)
    normed, choice = case.routed[missing].route(own, summed)

    case.routed[missing].at_hand[choice[0][0, 0]] = False
    mine, (rows, caches) = x.copy(), case.step()
    done = case.walk(0, mine, y.copy(), rows)
    assert (done.layers, done.begun, done.bad_row) == (missing, missing + 1, -1)
    assert_same((mine, done.y), (own, normed))
    assert_same((done.ids[missing], done.weights[missing]), choice)
    assert [c.length - BEFORE[0] for c in caches[0]] == [int(i <= missing) for i in range(LAYERS)]


def test_a_row_that_is_not_finite_ends_the_walk():
    case, (x, _) = Layers(), inputs(False)
    x[1, 3] = np.nan
    done = case.walk(0, x, None, case.step()[0])
    assert (done.layers, done.bad_row) == (0, 1)


def test_a_full_cache_ends_the_walk():
    case, (x, _) = Layers(), inputs(False)
    rows, caches = case.step()
    caches[0][1].length += 3
    with pytest.raises(ValueError, match="go on where its cache ends"):
        case.walk(0, x, None, rows)
    positions, kept = np.array([8]), [caches[0]]
    tables = [np.ones((1, DIM // 2), np.float32)] * 2
    for cache in caches[0]:
        cache.length = 8
    with pytest.raises(IndexError, match="8 positions cannot hold 9"):
        case.walk(0, x[:1], None, layer.step_rows(positions, [1], *tables, kept))


def test_moments_follow_one_another_and_divide_the_call():
    case, (x, y) = Layers(), inputs(True)
    rows, _ = case.step()
    before = _native.moment()
    done = case.walk(0, x, y, rows)
    after = _native.moment()
    moments = np.concatenate([[before], done.moments.reshape(-1, 2), [after]])
    assert (np.diff(moments, axis=0) >= 0).all()
    assert (np.diff(moments[1:-1], axis=0) > 0).all()
    walls, natives = np.diff(moments[1:-1], axis=0).T
    np.testing.assert_array_equal(walls, natives)  # nothing but kernels between them


def test_what_does_not_fit_is_refused():
    case, (x, _) = Layers(), inputs(False)
    with pytest.raises(ValueError, match="no such layer"):
        _native.walk(
            case.walk._native,
            LAYERS,
            x,
            x.copy(),
            x.copy(),
            False,
            case.step()[0],
            np.empty((0, 2, K), np.int32),
            np.empty((0, 2, K), np.float32),
            np.empty(0, np.int64),
            np.empty((0, 3, 2), np.int64),
            0,
        )
    with pytest.raises(ValueError, match="rows, k"):
        _native.walk(
            case.walk._native,
            0,
            x,
            x.copy(),
            x.copy(),
            False,
            case.step()[0],
            np.empty((LAYERS, 1, K), np.int32),
            np.empty((LAYERS, 1, K), np.float32),
            np.empty(LAYERS, np.int64),
            np.empty((LAYERS, 3, 2), np.int64),
            0,
        )
    other = layer.softmax_rule(EXPERTS, K + 1, True)
    one = case.routed[0]
    routed = layer.RoutedExperts(one.gate, other, K + 1, one.table, np.inf)
    norm, attention = case.norms[0], case.attention[0]
    with pytest.raises(ValueError, match="choose alike"):
        Walk([(norm, attention, one.norm, one.routed), (norm, attention, one.norm, routed)], 60)

"""A layer's router and experts in one call: the bits of the calls it stands for, or none."""

import numpy as np
import pytest
from bits import assert_same, everywhere, normal

from colibri import _native
from colibri.formats.floats import float_matrix
from colibri.formats.packed import pack_expert
from colibri.formats.table import FORMATS
from colibri.kernels import layer
from colibri.kernels.moe import ExpertLayout, ExpertTable, moe_all

HIDDEN, INNER, EXPERTS, K, EPS = 128, 64, 12, 3, 1e-6


class Layer:
    def __init__(self, limit=np.inf, planes=2):
        scheme = "int4-gs64"
        each = [pack_expert(*self._weights(i), FORMATS[scheme]) for i in range(EXPERTS)]
        self.bodies = [body for body, _ in each]
        down = 2 * FORMATS[scheme].nbytes(INNER, HIDDEN)
        starts = [body.ctypes.data for body in self.bodies]
        self.at_hand = np.ones(EXPERTS, np.bool_)
        self.table = ExpertTable(
            ExpertLayout(FORMATS[scheme], HIDDEN, INNER),
            np.array([(a, a, a + down) for a in starts], np.uint64),
            np.array([multipliers for _, multipliers in each], np.float32),
            planes,
            self.at_hand,
        )
        self.norm = layer.norm(normal(2, HIDDEN), EPS)
        self.gate = layer.Projector([float_matrix(normal(4, EXPERTS, HIDDEN))])
        self.rule = layer.softmax_rule(EXPERTS, K, True)
        self.limit = limit
        self.routed = layer.RoutedExperts(self.gate, self.rule, K, self.table, limit)

    @staticmethod
    def _weights(i):
        wide = [normal(10 * i + j, INNER, HIDDEN, scale=HIDDEN**-0.5) for j in (1, 2)]
        return *wide, normal(10 * i + 3, HIDDEN, INNER, scale=INNER**-0.5)

    def route(self, x, y):
        return layer.norm_route(x, y, self.norm, self.gate, self.rule, K)


def inputs(rows, summand=True):
    return normal(1, rows, HIDDEN), normal(3, rows, HIDDEN) if summand else None


@pytest.mark.parametrize("limit", [np.inf, 0.3])
@pytest.mark.parametrize("summand", [True, False])
@pytest.mark.parametrize("rows", [1, 5])
def test_one_call_has_the_bits_of_two(rows, summand, limit):
    case, (x, y) = Layer(limit), inputs(rows, summand)

    def once():
        own, mine = x.copy(), None if y is None else y.copy()
        h, choice, out, named, _ = case.routed(own, mine, case.norm)
        assert named == len(np.unique(choice[0]))
        return own, h, *choice, out

    stream, summed = x.copy(), None if y is None else y.copy()
    h, choice = case.route(stream, summed)
    out, _ = moe_all(case.table, *choice, h, limit)
    assert_same(everywhere(once), (stream, h, *choice, out))


def test_where_one_is_missing_the_choice_is_made_and_nothing_is_run():
    case, (x, y) = Layer(), inputs(4)
    h, choice = case.route(x.copy(), y.copy())
    for expert in np.unique(choice[0]):
        case.at_hand[:] = True
        case.at_hand[expert] = False
        mine, chosen, _, named, _ = case.routed(x.copy(), y.copy(), case.norm)
        assert named == 0
        assert_same((mine, *chosen), (h, *choice))
    case.at_hand[:] = False
    case.at_hand[np.unique(choice[0])] = True  # nobody asks for the others
    assert case.routed(x.copy(), y.copy(), case.norm)[3] > 0


def test_the_moment_of_the_choice_divides_the_call():
    case, (x, y) = Layer(), inputs(1)
    before = _native.moment()
    chosen = case.routed(x, y, case.norm)[4]
    after = _native.moment()
    for begin, between, end in zip(before, chosen, after, strict=True):
        assert begin < between < end
    assert chosen[1] - before[1] <= chosen[0] - before[0]


def test_a_row_that_is_not_finite_is_named():
    case, (x, y) = Layer(), inputs(3)
    x[1, 5] = np.inf
    with pytest.raises(ValueError, match="row 1: a router logit is not finite"):
        case.routed(x, y, case.norm)


def test_a_router_of_other_experts_is_refused():
    case = Layer()
    rule = layer.softmax_rule(EXPERTS + 1, K, True)
    with pytest.raises(ValueError, match="does not fit the experts"):
        layer.RoutedExperts(case.gate, rule, K, case.table, np.inf)
    with pytest.raises(ValueError, match="limit"):
        layer.RoutedExperts(case.gate, case.rule, K, case.table, 0.0)


def test_given_choices_are_taken_row_after_row_with_the_rules_weights():
    case, (x, y) = Layer(), inputs(4)
    table = np.array([np.roll(np.arange(EXPERTS), i)[:K] for i in range(9)], np.int32)
    given = layer.GivenChoices()
    given.set(table, None)
    given.position = 2
    rule = layer.given_rule(case.rule, given)
    routed = layer.RoutedExperts(case.gate, rule, K, case.table, np.inf)
    h, (_, weights) = case.route(x.copy(), y.copy())
    _, choice, out, named, _ = routed(x.copy(), y.copy(), case.norm)
    assert_same(choice, (table[2:6], weights))
    assert named == len(np.unique(table[2:6]))
    assert_same(out, moe_all(case.table, table[2:6], weights, h)[0])
    assert given.position == 6

    given.places = [8, 0, 3, 3]  # as many as rows: each goes on from its own
    told = np.full((9, K), 0.5, np.float32)
    given.set(table, told)
    _, (ids, weights) = layer.norm_route(x.copy(), y.copy(), case.norm, case.gate, rule, K)
    assert_same((ids, weights), (table[[8, 0, 3, 3]], told[:4]))
    assert (given.places, given.position) == ([9, 1, 4, 4], 6)


@pytest.mark.parametrize(
    ("ids", "position", "message"),
    [
        (np.zeros((9, K), np.int32), 6, "ends before"),
        (np.zeros((9, K), np.int32), -1, "ends before"),
        (np.zeros((9, K - 1), np.int32), 0, "the rule's k"),
        (np.full((9, K), EXPERTS, np.int32), 0, "that there is not"),
        (None, 0, "the rule's k"),
    ],
)
def test_given_choices_that_do_not_fit_are_refused(ids, position, message):
    case, (x, y) = Layer(), inputs(4)
    given = layer.GivenChoices()
    if ids is not None:
        given.set(ids, None)
    given.position = position
    rule = layer.given_rule(case.rule, given)
    with pytest.raises(ValueError, match=message):
        layer.norm_route(x, y, case.norm, case.gate, rule, K)
    assert given.position == position

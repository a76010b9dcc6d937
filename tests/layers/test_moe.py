"""A layer with experts asks its router in one way or another: with the same bits."""

from dataclasses import dataclass, field

import numpy as np
import pytest

from colibri.errors import ColibriError
from colibri.formats.floats import float_matrix
from colibri.layers.linear import Linear
from colibri.layers.moe import MoE
from colibri.layers.norm import RMSNorm
from colibri.layers.step import Step
from colibri.routing.sigmoid import SigmoidRouter
from colibri.routing.softmax import SoftmaxRouter

HIDDEN, EXPERTS, K = 32, 12, 3


@dataclass
class Recorder:
    """An executor that keeps what it is asked."""

    asked: list = field(default_factory=list)

    def run(self, layer, x, topk_ids, topk_weights, meanwhile=lambda: None, limit=None):
        meanwhile()
        self.asked.append((x.copy(), topk_ids.copy(), topk_weights.copy()))
        return np.zeros_like(x)


@dataclass
class FromOutside:
    """A router that no kernel knows."""

    own: SoftmaxRouter

    @property
    def k(self):
        return self.own.k

    def route(self, logits):
        return self.own.route(logits)

    def guess(self, logits):
        return self.own.guess(logits)


@dataclass
class Changed(FromOutside):
    """One that builds on the family's rule."""

    def rule(self, experts):
        return self.own.rule(experts)

    def chosen(self, ids, weights):
        return ids[:, ::-1].copy(), weights * 2


def values(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def asked(router, x, y):
    experts, norm = Recorder(), RMSNorm(values(3, HIDDEN), 1e-6)
    moe = MoE(4, Linear(float_matrix(values(4, EXPERTS, HIDDEN))), router, experts)
    x = x.copy()
    moe(x, y.copy(), norm, Step(np.zeros(len(x), np.int64), np.arange(len(x)), []))
    return x, *experts.asked[0]


OWN = [
    SoftmaxRouter(K, True),
    SigmoidRouter(K, values(5, EXPERTS), 4, 2, True, 2.5),
]


@pytest.mark.parametrize("own", OWN, ids=lambda r: type(r).__name__)
@pytest.mark.parametrize("rows", [1, 9])
def test_a_router_from_outside_sees_the_same(own, rows):
    x, y = values(1, rows, HIDDEN), values(2, rows, HIDDEN)
    for one, other in zip(asked(own, x, y), asked(FromOutside(own), x, y), strict=True):
        np.testing.assert_array_equal(one.view(np.uint32), other.view(np.uint32))


def test_what_a_router_makes_of_its_rules_choice_is_used():
    x, y = values(1, 5, HIDDEN), values(2, 5, HIDDEN)
    _, _, ids, weights = asked(OWN[0], x, y)
    _, _, changed, doubled = asked(Changed(OWN[0]), x, y)
    np.testing.assert_array_equal(changed, ids[:, ::-1])
    np.testing.assert_array_equal(doubled, weights * 2)


@pytest.mark.parametrize("router", [OWN[0], FromOutside(OWN[0])])
def test_numbers_that_are_none_end_the_answer_with_the_layers_name(router):
    x = values(1, 3, HIDDEN)
    x[1, 2] = np.nan
    with pytest.raises(ColibriError, match="layer 4, row 1: a router logit is not finite"):
        asked(router, x, values(2, 3, HIDDEN))

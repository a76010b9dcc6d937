"""What approximations build on agrees with what the families' kernels do."""

import numpy as np
import pytest
from routing_kit import EXPERTS, LOGITS, OWN, K

from colibri.routing.base import FamilyRouter


@pytest.mark.parametrize("own", OWN.values(), ids=OWN)
def test_weights_are_those_of_the_rule(own):
    assert isinstance(own, FamilyRouter)
    ids, weights = own.route(LOGITS)
    np.testing.assert_allclose(own.weights(LOGITS, ids), weights, rtol=1e-6)
    if own.total is not None:
        np.testing.assert_allclose(weights.sum(axis=1), own.total, rtol=1e-6)


@pytest.mark.parametrize("own", OWN.values(), ids=OWN)
def test_more_experts_begin_with_the_same(own):
    most = own.reach(EXPERTS)
    ids, _ = own.with_k(most).route(LOGITS)
    assert ids.shape[1] == most
    np.testing.assert_array_equal(ids[:, :K], own.route(LOGITS)[0])

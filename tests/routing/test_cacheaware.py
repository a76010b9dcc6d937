"""The J best are kept, the rest are taken among the residents of the M best."""

import numpy as np
import pytest
from routing_kit import EXPERTS, LOGITS, OWN, K

from colibri.routing.cacheaware import CacheAwareRouter, Residency, Swaps

M, J = 7, 2


def route(own, resident, keep=J):
    swaps = Swaps()
    router = CacheAwareRouter(
        own, own.with_k(min(M, own.reach(EXPERTS))), keep, 3, lambda layer: resident, swaps
    )
    return *router.route(LOGITS), swaps


@pytest.mark.parametrize("own", OWN.values(), ids=OWN)
@pytest.mark.parametrize("share", [0.0, 1.0])
def test_with_all_or_nothing_at_hand_the_bits_are_the_familys(own, share):
    ids, weights, swaps = route(own, np.full(EXPERTS, share > 0))
    own_ids, own_weights = own.route(LOGITS)
    np.testing.assert_array_equal(ids, own_ids)
    np.testing.assert_array_equal(weights.view(np.uint32), own_weights.view(np.uint32))
    assert (swaps.chosen, swaps.swapped) == (ids.size, 0)


@pytest.mark.parametrize("own", [OWN["softmax renormalised"], OWN["sigmoid"]], ids=["soft", "sig"])
def test_the_rule(own):
    resident = np.arange(EXPERTS) % 3 == 0
    ids, weights, swaps = route(own, resident)
    best = own.with_k(M).route(LOGITS)[0]
    swapped = 0
    for row, ranked in zip(ids.tolist(), best.tolist(), strict=True):
        at_hand = [e for e in ranked[J:] if resident[e]]
        absent = [e for e in ranked[J:] if not resident[e]]
        expected = set(ranked[:J] + (at_hand + absent)[: K - J])
        assert row == [e for e in ranked if e in expected]
        swapped += len(expected - set(ranked[:K]))
    assert swaps.swapped == swapped > 0
    np.testing.assert_allclose(weights, own.weights(LOGITS, ids), rtol=1e-6)


def test_keeping_all_changes_nothing():
    own = OWN["softmax"]
    ids, _, swaps = route(own, np.arange(EXPERTS) % 2 == 0, keep=K)
    np.testing.assert_array_equal(ids, own.route(LOGITS)[0])
    assert swaps.swapped == 0


def test_what_is_kept_aside_is_seen_once():
    cache = np.zeros(EXPERTS, np.bool_)
    residency = Residency(lambda layer: cache)
    residency.keep([3, 4])
    cache[:] = True
    assert not residency(3).any()
    assert residency(3).all()
    assert residency(5).all()
    assert not residency(4).any()

"""The heaviest experts that hold a share of the weight; filled up where others need more."""

import numpy as np
import pytest
from routing_kit import LOGITS, OWN, K

from colibri.routing.topp import TopPRouter, trimmed


def test_an_example():
    ids = np.array([[4, 2, 7], [1, 5, 3]], np.int32)
    weights = np.array([[0.6, 0.3, 0.1], [0.5, 0.4, 0.1]], np.float32)
    got_ids, got = trimmed(ids, weights, 0.6, None)
    np.testing.assert_array_equal(got_ids, [[4, 1], [1, 5]])
    np.testing.assert_array_equal(got, np.array([[0.6, 0], [0.5, 0.4]], np.float32))
    alone, scaled = trimmed(ids[:1], weights[:1], 0.6, 2.5)
    np.testing.assert_array_equal(alone, [[4]])
    np.testing.assert_allclose(scaled, [[2.5]])


def test_the_heaviest_stay_in_whatever_order_they_came():
    ids, weights = trimmed(
        np.array([[4, 2, 7]], np.int32), np.array([[0.1, 0.7, 0.2]], np.float32), 0.8, None
    )
    np.testing.assert_array_equal(ids, [[2, 7]])
    np.testing.assert_array_equal(weights, np.array([[0.7, 0.2]], np.float32))


@pytest.mark.parametrize("own", OWN.values(), ids=OWN)
def test_all_of_the_weight_is_the_familys_choice_to_the_bit(own):
    ids, weights = TopPRouter(own, 1.0, own.total).route(LOGITS)
    own_ids, own_weights = own.route(LOGITS)
    order = np.argsort(-own_weights, axis=1, kind="stable")
    np.testing.assert_array_equal(ids, np.take_along_axis(own_ids, order, 1))
    np.testing.assert_array_equal(weights, np.take_along_axis(own_weights, order, 1))


@pytest.mark.parametrize("own", OWN.values(), ids=OWN)
def test_in_company_a_token_has_its_own_experts_and_others_at_weight_0(own):
    router = TopPRouter(own, 0.53, own.total)
    ids, weights = router.route(LOGITS)
    wanted, width = set(), 0
    for row in range(len(LOGITS)):
        alone_ids, alone_weights = router.route(LOGITS[row : row + 1])
        count = alone_ids.shape[1]
        np.testing.assert_array_equal(ids[row, :count], alone_ids[0])
        np.testing.assert_array_equal(weights[row, :count], alone_weights[0])
        assert not weights[row, count:].any()
        assert len(set(ids[row].tolist())) == ids.shape[1]
        wanted |= set(alone_ids[0].tolist())
        width = max(width, count)
    assert set(ids.ravel().tolist()) == wanted
    assert ids.shape[1] == width <= K
    assert (weights == 0).any()

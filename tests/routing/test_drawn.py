"""Drawn experts: in proportion, the same whatever else runs, and by no more than (seed, place)."""

import math

import numpy as np
import pytest
from routing_kit import EXPERTS, LOGITS, OWN, K, values

from colibri.routing.drawn import GumbelRouter, SoftRouter
from colibri.routing.noise import CLAMP, Noise, log
from colibri.routing.softmax import SoftmaxRouter

ROWS = len(LOGITS)


def noise(positions, seed=0):
    made = Noise(seed)
    made.tell(np.asarray(positions, np.int64))
    return made


def test_the_logarithm():
    x = np.concatenate([np.random.default_rng(0).uniform(CLAMP, 14, 1000), [CLAMP, 0.5, 1.0, 2.0]])
    np.testing.assert_allclose(log(x), [math.log(v) for v in x], rtol=1e-14, atol=1e-16)


def test_noise_is_gumbel_and_bounded():
    drawn = noise(range(20_000)).gumbel(3, 8)
    assert abs(drawn.mean() - 0.5772) < 0.01
    assert abs(drawn.var() - math.pi**2 / 6) < 0.03
    uniform = noise(range(20_000)).uniform(3, 8)
    clamped = -math.log(-math.log(CLAMP)), -math.log(-math.log(1 - CLAMP))
    assert clamped[0] <= drawn.min()
    assert drawn.max() <= clamped[1]
    assert 0 <= uniform.min() < 0.001
    assert 0.999 < uniform.max() < 1


def test_noise_depends_on_seed_layer_position_and_expert_alone():
    whole = noise(range(10)).gumbel(1, 6)
    np.testing.assert_array_equal(noise([7]).gumbel(1, 6)[0], whole[7])
    np.testing.assert_array_equal(noise([9, 2]).gumbel(1, 4), whole[[9, 2], :4])
    assert len(np.unique(whole)) == whole.size
    for other in (noise(range(10), seed=1).gumbel(1, 6), noise(range(10)).gumbel(2, 6)):
        assert not np.isin(other, whole).any()


@pytest.mark.parametrize("kind", [GumbelRouter, SoftRouter])
@pytest.mark.parametrize("own", OWN.values(), ids=OWN)
def test_a_token_is_routed_alike_alone_and_in_company(own, kind):
    ids, weights = kind(own, 5, noise(range(ROWS)), 0.5).route(LOGITS)
    alone_ids, alone_weights = kind(own, 5, noise([17]), 0.5).route(LOGITS[17:18])
    np.testing.assert_array_equal(alone_ids[0], ids[17])
    np.testing.assert_array_equal(alone_weights[0].view(np.uint32), weights[17].view(np.uint32))
    assert all(len(set(row)) == K for row in ids.tolist())
    np.testing.assert_allclose(weights, own.weights(LOGITS, ids))
    assert (ids != own.route(LOGITS)[0]).any()


@pytest.mark.parametrize("own", OWN.values(), ids=OWN)
def test_hardly_any_temperature_is_the_familys_choice(own):
    ids, _ = GumbelRouter(own, 5, noise(range(ROWS)), 1e-6).route(LOGITS)
    np.testing.assert_array_equal(ids, own.route(LOGITS)[0])


@pytest.mark.parametrize("own", [OWN["softmax"], OWN["sigmoid in groups"]], ids=["softmax", "sig"])
def test_soft_draws_in_proportion_to_the_scores(own):
    count = 20_000
    logits = np.repeat(values(3, 1, EXPERTS), count, axis=0)
    ids, _ = SoftRouter(own.with_k(1), 0, noise(range(count)), 1.0).route(logits)
    scores = own.scores(logits[:1])[0]
    drawn = np.bincount(ids[:, 0], minlength=EXPERTS) / count
    np.testing.assert_allclose(drawn, scores / scores.sum(), atol=0.012)


@pytest.mark.parametrize("kind", [GumbelRouter, SoftRouter])
def test_what_is_not_finite_is_refused(kind):
    logits = LOGITS.copy()
    logits[3, 2] = np.nan
    with pytest.raises(ValueError, match="3"):
        kind(SoftmaxRouter(K, True), 0, noise(range(ROWS)), 0.5).route(logits)

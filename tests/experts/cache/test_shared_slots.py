"""Slots that are taken away, given back, held and shared while guesses and demands go on."""

import numpy as np
import pytest
from faults import Faulty, jitter
from model import Layer, expected, routing, write_layer

from colibri.experts.cache.policies import POLICIES
from colibri.experts.streamed import StreamedExperts

POLICY = pytest.mark.parametrize("policy", POLICIES)


@pytest.fixture(scope="module")
def layers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("experts")
    layers = {n: Layer(n, folder / f"layer{n}") for n in (1, 2, 3)}
    for layer in layers.values():
        write_layer(layer)
    return layers


def live(experts):
    return sum(len(experts.resident(n)) for n in (1, 2, 3))


def traffic(experts, layers, rng, calls):
    """Calls with guesses for the layer after, each result checked: a slot that somebody else had
    written to would show."""
    for _ in range(calls):
        number = int(rng.integers(1, 4))
        batch = routing(rng, int(rng.integers(1, 5)), int(rng.integers(1, 4)), layers[number])

        def meanwhile(after=number % 3 + 1):
            guess = rng.permutation(12)[:3].tolist()
            experts.hint(after, guess, 3)

        y = experts.run(number, *batch, meanwhile)
        np.testing.assert_allclose(y, expected(layers[number], *batch), rtol=1e-4, atol=1e-5)
        yield


@POLICY
@pytest.mark.parametrize("scope", ["layer", "global"])
def test_a_slot_in_use_or_in_flight_is_never_given_away(layers, scope, policy):
    # B028, B029: two slots a layer, reads ahead beside demands, unions larger than the cache.
    read = Faulty(jitter)
    experts = StreamedExperts(layers, slots_per_layer=2, policy=policy, scope=scope, read=read)
    for _ in traffic(experts, layers, np.random.default_rng(7), 30):
        assert live(experts) <= 6
    stats = experts.stats()
    assert stats.prefetch_reads > 0
    assert stats.evictions > 0
    experts.close()


@POLICY
@pytest.mark.parametrize("scope", ["layer", "global"])
def test_live_slots_never_exceed_a_cap_that_moves(layers, scope, policy):
    # B027: what a guard frees is not taken again, and lowering the cap ends where it says.
    experts = StreamedExperts(layers, slots_per_layer=9, policy=policy, scope=scope)
    rng = np.random.default_rng(8)
    mapped = experts.nbytes
    for cap in (9, 6, 3, 1, 4, 2):
        experts.resize(cap)
        for _ in traffic(experts, layers, rng, 5):
            assert live(experts) <= 3 * cap
    assert experts.nbytes == mapped
    experts.close()


@POLICY
def test_held_experts_stay_through_everything_else(layers, policy):
    experts = StreamedExperts(layers, slots_per_layer=4, policy=policy)
    cache = experts._stages[1].cache
    for expert in (3, 5):
        assert cache.hold(expert)
    x, weights = np.ones((1, 32), np.float32), np.ones((1, 2), np.float32)
    experts.run(1, x, np.array([[3, 5]], np.int32), weights)
    for _ in traffic(experts, layers, np.random.default_rng(9), 20):
        assert {3, 5} <= experts.resident(1)
    experts.reset()
    experts.run(1, x, np.array([[3, 5]], np.int32), weights)
    assert (experts.stats().hits, experts.stats().misses) == (2, 0)
    experts.close()

"""What the cache does follows from the demands alone, never from when a read lands."""

import random
import time

import numpy as np
import pytest
from faults import Faulty
from model import Layer, expected, routing, write_layer

from colibri.experts.cache.policies import POLICIES
from colibri.experts.streamed import StreamedExperts

IN_ORDER, BY_PAIR = 0, 1 << 20  # bytes of the pair buffer


@pytest.fixture(scope="module")
def layers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("experts")
    layers = {n: Layer(n, folder / f"layer{n}") for n in (1, 4)}
    for layer in layers.values():
        write_layer(layer)
    return layers


def history(layers, seed, **options):
    """What a fixed traffic leaves behind, when reads take random times."""
    delays = random.Random(seed)

    def late(n):
        time.sleep(delays.choice([0, 0, 0.0002, 0.001]))

    rng, seen = np.random.default_rng(5), []
    experts = StreamedExperts(layers, read=Faulty(late), **options)
    for _ in range(25):
        number = int(rng.choice([1, 4]))
        batch = routing(rng, int(rng.integers(1, 6)), int(rng.integers(1, 5)), layers[number])
        y = experts.run(number, *batch)
        np.testing.assert_allclose(y, expected(layers[number], *batch), rtol=1e-4, atol=1e-5)
        stats = experts.stats()
        seen.append((stats.hits, stats.misses, stats.evictions, stats.reads))
        seen.append((experts.resident(1), experts.resident(4)))
    experts.close()
    return seen


@pytest.mark.parametrize("scope", ["layer", "global"])
@pytest.mark.parametrize("buffer", [IN_ORDER, BY_PAIR])
@pytest.mark.parametrize("slots", [1, 3, 5])
@pytest.mark.parametrize("policy", POLICIES)
def test_delays_change_no_decision(layers, policy, slots, buffer, scope):
    options = {"slots_per_layer": slots, "policy": policy, "scope": scope}
    first, again = (history(layers, n, pair_buffer_bytes=buffer, **options) for n in (1, 2))
    assert first == again
    assert first[-2][3] == first[-2][1]

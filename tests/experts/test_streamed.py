import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from model import Layer, expected, routing, write_layer

from colibri.errors import ConfigError
from colibri.experts.streamed import StreamedExperts

IN_ORDER = 0  # a pair buffer of no bytes: every call walks in ascending order
CAPACITIES = [1, 2, 3, 5, 11, 12, 99]


@pytest.fixture(scope="module")
def layers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("experts")
    layers = {n: Layer(n, folder / f"layer{n}") for n in (1, 4)}
    for layer in layers.values():
        write_layer(layer)
    return layers


@pytest.fixture
def make(layers):
    made = []

    def build(slots, **options):
        made.append(StreamedExperts(layers, slots_per_layer=slots, **options))
        return made[-1]

    yield build
    for experts in made:
        experts.close()


def bits(y):
    return y.view(np.uint32)


@pytest.mark.parametrize("buffer", [IN_ORDER, 1 << 20])
@pytest.mark.parametrize("rows", [1, 7])
@pytest.mark.parametrize("capacity", CAPACITIES)
def test_bits_do_not_depend_on_capacity_state_or_walk(make, layers, capacity, rows, buffer):
    batch = routing(np.random.default_rng(rows), rows, 5, layers[1])
    whole = make(99).run(1, *batch)
    np.testing.assert_allclose(whole, expected(layers[1], *batch), rtol=1e-4, atol=1e-5)
    experts = make(capacity, pair_buffer_bytes=buffer)
    cold, warm = experts.run(1, *batch), experts.run(1, *batch)
    experts.drop_all()
    again = experts.run(1, *batch)
    for y in (cold, warm, again):
        np.testing.assert_array_equal(bits(y), bits(whole))


@pytest.mark.parametrize("buffer", [IN_ORDER, 1 << 20])
def test_random_traffic_over_two_layers(make, layers, buffer):
    rng = np.random.default_rng(0)
    experts = make({1: 3, 4: 7}, pair_buffer_bytes=buffer)
    asked = 0
    for _ in range(60):
        number = int(rng.choice([1, 4]))
        batch = routing(rng, int(rng.integers(1, 9)), int(rng.integers(1, 7)), layers[number])
        y = experts.run(number, *batch)
        np.testing.assert_allclose(y, expected(layers[number], *batch), rtol=1e-4, atol=1e-5)
        asked += np.unique(batch[1]).size
        assert len(experts.resident(1)) <= 3
        assert len(experts.resident(4)) <= 7
    stats = experts.stats()
    assert stats.hits + stats.misses == asked
    assert stats.reads == stats.misses
    assert stats.hits > 0
    assert stats.evictions == stats.reads - len(experts.resident(1)) - len(experts.resident(4))


def test_a_row_does_not_depend_on_its_batch(make, layers):
    x, ids, weights = routing(np.random.default_rng(3), 9, 4, layers[4])
    experts = make(4)
    together = experts.run(4, x, ids, weights)
    for row in range(9):
        one = slice(row, row + 1)
        alone = experts.run(4, x[one], ids[one], weights[one])
        np.testing.assert_array_equal(bits(alone), bits(together[one]))


def test_what_is_resident_is_not_read_again(make, layers):
    batch = routing(np.random.default_rng(4), 3, 4, layers[1])
    union = set(np.unique(batch[1]).tolist())
    experts = make(12)
    experts.run(1, *batch)
    assert experts.resident(1) == union
    read = experts.stats()
    assert (read.hits, read.misses, read.reads) == (0, len(union), len(union))
    assert read.bytes_read >= len(union) * layers[1].expert_bytes
    assert read.read_seconds > 0
    assert read.wait_seconds > 0
    experts.run(1, *batch)
    assert experts.stats().reads == len(union)
    assert experts.stats().hits == len(union)
    experts.reset()
    assert experts.stats().hits == experts.stats().reads == 0


def test_least_recently_used_goes_first(make, layers):
    experts = make(3)
    x, weights = np.ones((1, 32), np.float32), np.ones((1, 1), np.float32)
    for expert in (0, 1, 2, 0, 3):
        experts.run(1, x, np.array([[expert]], np.int32), weights)
    assert experts.resident(1) == {0, 2, 3}


def test_resize_keeps_results_and_bounds(make, layers):
    rng = np.random.default_rng(5)
    experts = make(12)
    for capacity in (12, 2, 1, 6, {1: 4, 4: 9}, 12, 1):
        experts.resize(capacity)
        for number in (1, 4):
            bound = capacity if isinstance(capacity, int) else capacity[number]
            batch = routing(rng, 6, 4, layers[number])
            y = experts.run(number, *batch)
            np.testing.assert_allclose(y, expected(layers[number], *batch), rtol=1e-4, atol=1e-5)
            assert len(experts.resident(number)) <= bound


def test_shrinking_a_warm_cache_keeps_the_recent_experts(make, layers):
    experts = make(12)
    x, weights = np.ones((1, 32), np.float32), np.ones((1, 1), np.float32)
    for expert in range(12):
        experts.run(1, x, np.array([[expert]], np.int32), weights)
    experts.resize(3)
    assert experts.resident(1) == {9, 10, 11}


@pytest.mark.parametrize("scope", ["layer", "global"])
def test_memory_goes_back_from_slots_that_have_taken_it(make, layers, scope):
    experts = make(12, scope=scope)
    x, weights = np.ones((1, 32), np.float32), np.ones((1, 1), np.float32)
    for number, used in ((1, 8), (4, 4)):
        for expert in range(used):
            experts.run(number, x, np.array([[expert]], np.int32), weights)
    size = layers[1].slot_bytes
    assert experts.slots == 24
    assert experts.shrink(3 * size) == 3 * size  # a quarter, and all that was not used yet
    assert experts.slots == 9
    batch = routing(np.random.default_rng(1), 6, 5, layers[1])
    whole = make(99).run(1, *batch)
    np.testing.assert_array_equal(bits(experts.run(1, *batch)), bits(whole))
    assert experts.slots == 9
    assert experts.shrink(1 << 40) <= 7 * size
    assert experts.slots == 2
    assert experts.shrink(1) == 0
    np.testing.assert_array_equal(bits(experts.run(1, *batch)), bits(whole))


def test_no_rows(make):
    nothing = np.empty((0, 4), np.int32)
    x = np.empty((0, 32), np.float32)
    assert make(1).run(1, x, nothing, nothing.astype(np.float32)).shape == (0, 32)


def test_refused_arguments(make, layers):
    with pytest.raises(ConfigError, match="at least 1"):
        make(0)
    with pytest.raises(ConfigError, match="'fifo' is unknown; there is: lru, slru"):
        make(1, policy="fifo")
    experts = make(4)
    x, weights = np.ones((1, 32), np.float32), np.ones((1, 2), np.float32)
    with pytest.raises(ConfigError, match="layer 2"):
        experts.run(2, x, np.array([[0, 1]], np.int32), weights)
    with pytest.raises(ValueError, match="twice in one row"):
        experts.run(1, x, np.array([[3, 3]], np.int32), weights)
    for bad in (-1, 12):
        with pytest.raises(ValueError, match=r"outside 0\.\.11"):
            experts.run(1, x, np.array([[bad, 3]], np.int32), weights)
    experts.close()
    with pytest.raises(ConfigError, match="closed"):
        experts.run(1, x, np.array([[0, 1]], np.int32), weights)


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_any_capacity_and_batch_gives_the_same_bits(layers, data):
    rows, k = data.draw(st.integers(1, 20)), data.draw(st.integers(1, 12))
    batch = routing(np.random.default_rng(data.draw(st.integers(0, 99))), rows, k, layers[1])
    results = []
    for _ in range(2):
        experts = StreamedExperts(
            layers,
            slots_per_layer=data.draw(st.integers(1, 12)),
            readers=data.draw(st.integers(1, 3)),
            pair_buffer_bytes=data.draw(st.sampled_from([IN_ORDER, 1 << 20])),
        )
        results += [experts.run(1, *batch), experts.run(1, *batch)]
        experts.close()
    for y in results[1:]:
        np.testing.assert_array_equal(bits(y), bits(results[0]))

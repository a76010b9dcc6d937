"""Reads on hints: real reads behind every demand, that change no result and lose no slot."""

import threading
import time

import numpy as np
import pytest
from faults import Faulty, io_error, jitter
from model import Layer, expected, routing, write_layer
from poison import Poison

from colibri.errors import Cancelled, ReadError
from colibri.experts.cache.policies import POLICIES
from colibri.experts.streamed import StreamedExperts

SLOTS = 3


@pytest.fixture(scope="module")
def layers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("experts")
    layers = {n: Layer(n, folder / f"layer{n}") for n in (1, 2, 3)}
    for layer in layers.values():
        write_layer(layer)
    return layers


@pytest.fixture
def make(layers):
    made = []

    def build(slots=SLOTS, **options):
        made.append(StreamedExperts(layers, slots_per_layer=slots, **options))
        return made[-1]

    yield build
    for experts in made:
        experts.close()


def run(experts, layer, ids, meanwhile=lambda: None):
    x, weights = np.ones((1, 32), np.float32), np.ones((1, len(ids)), np.float32)
    return experts.run(layer, x, np.array([ids], np.int32), weights, meanwhile)


def landed(experts, count):
    """Waits for reads to end that no call has asked for."""
    deadline = time.monotonic() + 5
    while experts.stats().prefetch_reads < count:
        assert time.monotonic() < deadline
        experts._ahead.collect()
        time.sleep(0.001)


class Gate:
    """Holds every read from the n-th on until opened."""

    def __init__(self, first=1):
        self.first, self.event, self.begun = first, threading.Event(), threading.Event()

    def __call__(self, n):
        if n >= self.first:
            self.begun.set()
            assert self.event.wait(5)


def test_a_right_guess_is_a_hit_without_waiting(make, layers):
    """B032."""
    experts = make()
    guess = experts.hint(2, [5, 7], 2)
    landed(experts, 2)
    assert experts.resident(2) == {5, 7}
    run(experts, 2, [5, 7])
    stats = experts.stats()
    assert (stats.hits, stats.misses, stats.reads) == (2, 0, 2)
    assert (stats.prefetch_reads, stats.prefetch_useful, stats.wait_seconds) == (2, 2, 0)
    assert stats.prefetch_wasted_bytes == stats.prefetch_expired == 0
    assert (guess.missing, guess.right) == (2, {5, 7})
    assert stats.lookahead_recall == 1


def test_a_wrong_guess_goes_first_and_counts_as_waste(make, layers):
    experts = make()
    run(experts, 2, [0, 1])
    guess = experts.hint(2, [5], 1)
    landed(experts, 1)
    run(experts, 2, [2])
    assert experts.resident(2) == {0, 1, 2}
    stats = experts.stats()
    assert stats.prefetch_useful == 0
    assert stats.prefetch_wasted_bytes == sum(span.nbytes for span in layers[2].reads(5))
    assert (guess.missing, guess.right) == (1, set())
    assert stats.lookahead_recall == 0


def test_a_guess_used_once_is_like_any_other_expert(make):
    experts = make()
    experts.hint(2, [5], 1)
    landed(experts, 1)
    for ids in ([5], [0], [1], [5], [2]):
        run(experts, 2, ids)
    assert experts.resident(2) == {5, 1, 2}
    assert experts.stats().prefetch_useful == 1
    assert experts.stats().prefetch_wasted_bytes == 0


def test_a_guess_only_to_compare_reads_nothing(make):
    experts = make()
    run(experts, 2, [1])
    guess = experts.hint(2, [5, 1, 7], 0)
    assert guess.absent == {5: 0, 7: 2}
    assert guess.missing is None
    run(experts, 2, [1, 7, 8])
    assert experts.stats().prefetch_reads == 0
    assert (guess.missing, guess.right) == (2, {7})


def test_what_is_in_flight_is_waited_for_and_read_once(make, layers):
    gate = Gate()
    experts = make(readers=2, read=Faulty(gate))
    experts.hint(2, [5], 1)
    assert gate.begun.wait(5)
    y = run(experts, 2, [5, 6], gate.event.set)
    np.testing.assert_array_equal(y, run(make(), 2, [5, 6]))
    stats = experts.stats()
    assert (stats.misses, stats.reads, stats.prefetch_reads, stats.prefetch_useful) == (2, 2, 1, 1)


def test_what_has_not_begun_when_its_call_comes_expires_or_is_promoted(make):
    gate = Gate()
    experts = make(readers=1, read=Faulty(gate))
    experts.hint(3, [0], 1)
    assert gate.begun.wait(5)
    experts.hint(2, [5, 6], 2)
    run(experts, 2, [5], gate.event.set)
    stats = experts.stats()
    assert stats.prefetch_expired == 1
    assert stats.prefetch_useful == 0
    assert experts.resident(2) == {5}
    assert stats.reads <= 2


def test_expired_hints_give_their_slots_back(make):
    gate = Gate()
    experts = make(readers=1, read=Faulty(gate))
    experts.hint(1, [0], 1)
    assert gate.begun.wait(5)
    experts.hint(2, [5, 6, 7], 3)
    experts.hint(3, [5], 1)
    experts.expire()
    assert experts.stats().prefetch_expired >= 3
    gate.event.set()
    run(experts, 2, [0, 1, 2])
    run(experts, 2, [0, 1, 2])
    assert experts.stats().reads <= 5
    assert experts.resident(2) == {0, 1, 2}


def test_a_new_hint_replaces_the_reads_that_have_not_begun(make):
    gate = Gate()
    experts = make(readers=1, read=Faulty(gate))
    experts.hint(1, [0], 1)
    assert gate.begun.wait(5)
    experts.hint(2, [5, 6, 7], 3)
    experts.hint(2, [6, 8], 2)
    gate.event.set()
    landed(experts, 3)
    assert experts.resident(2) == {6, 8}


def test_a_guess_takes_no_slot_that_is_in_use_guessed_or_in_flight(make):
    experts = make()
    run(experts, 2, [0, 1, 2])
    experts.hint(2, [5, 0, 1, 2], 4)
    assert not experts._ahead
    experts.hint(2, [5, 0, 1], 1, keep=[2])
    assert not experts._ahead
    experts.hint(2, [5, 0, 6], 3, keep=[2])
    landed(experts, 1)
    assert experts.resident(2) == {0, 2, 5}


def test_a_hint_for_the_layer_in_hand_comes_too_late(make):
    experts = make()
    run(experts, 2, [5], lambda: experts.hint(2, [5, 6], 2))
    assert experts.stats().reads == 1
    assert experts.resident(2) == {5}


@pytest.mark.parametrize("buffer", [0, 1 << 20])
@pytest.mark.parametrize("missing", [[], [7]], ids=["all at hand", "one missing"])
def test_a_guess_for_another_layer_takes_no_slot_that_a_call_uses(
    make, monkeypatch, buffer, missing
):
    """The layers have their slots in common, and the guess has landed before the call goes on."""
    ids = [3, 4, 5, *missing]
    plain = run(make(12), 2, ids)
    poison = Poison(monkeypatch)
    experts = make({1: 1, 2: 2, 3: 1}, scope="global", pair_buffer_bytes=buffer)
    run(experts, 2, [3, 4, 5])

    def guess():
        experts.hint(3, [0, 1, 2, 6], 4)
        experts.hint(1, [8, 9], 2)
        while experts._ahead:
            experts._ahead.collect()

    assert poison.begun == 3
    if not missing:
        np.testing.assert_array_equal(run(experts, 2, ids, guess), plain)
        assert len(experts.resident(3) | experts.resident(1)) == 1  # the one slot not in use
        assert experts.resident(2) == {3, 4, 5}
    else:
        hint = lambda: experts.hint(3, [0, 1, 2, 6], 4)  # noqa: E731
        np.testing.assert_array_equal(run(experts, 2, ids, hint), plain)


def test_a_call_that_breaks_off_leaves_nothing_in_use(make):
    experts = make({1: 1, 2: 2, 3: 1}, scope="global")
    run(experts, 2, [3, 4, 5])

    def fail():
        raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011
        run(experts, 2, [3, 4, 5], fail)
    run(experts, 1, [0, 1, 2, 6])
    assert experts.resident(1) == {0, 1, 2, 6}


@pytest.mark.parametrize("capacity", [1, 2])
@pytest.mark.parametrize("buffer", [0, 1 << 20])
def test_wrong_guesses_in_flight_into_all_slots(make, layers, capacity, buffer):
    gate = Gate()
    experts = make(capacity, readers=2, pair_buffer_bytes=buffer, read=Faulty(gate))
    experts.hint(2, [8, 9], 2)
    assert gate.begun.wait(5)
    y = run(experts, 2, [3, 4, 5], gate.event.set)
    np.testing.assert_array_equal(y, run(make(12), 2, [3, 4, 5]))
    assert len(experts.resident(2)) == capacity


def test_a_failed_guess_is_silent_and_the_demand_reports(make):
    read = Faulty(io_error)
    experts = make(read=read)
    experts.hint(2, [5], 1)
    landed(experts, 1)
    assert experts.stats().prefetch_failed == 1
    with pytest.raises(ReadError, match="expert 5 of layer 2"):
        run(experts, 2, [5])
    read.fault = lambda n: None
    run(experts, 2, [5, 6, 7])
    assert experts.resident(2) == {5, 6, 7}


def test_a_guess_that_fails_while_waited_for_is_read_again(make):
    begun = threading.Event()

    def fail_the_guess(n):
        begun.set()
        if n <= 4:
            io_error(n)

    experts = make(readers=1, read=Faulty(fail_the_guess))
    experts.hint(2, [5], 1)
    assert begun.wait(5)
    run(experts, 2, [5])
    stats = experts.stats()
    assert (stats.prefetch_failed, stats.prefetch_useful, stats.misses) == (1, 0, 1)


def test_an_interrupted_hint_leaves_nothing_behind(make, monkeypatch):
    experts = make()
    submit = experts._loader.submit

    def interrupt(job):
        submit(job)
        raise KeyboardInterrupt

    monkeypatch.setattr(experts._loader, "submit", interrupt)
    with pytest.raises(KeyboardInterrupt):
        experts.hint(2, [5, 6], 2)
    monkeypatch.setattr(experts._loader, "submit", submit)
    run(experts, 2, [5, 6, 7])
    assert experts.resident(2) == {5, 6, 7}


def test_cold_again_and_another_size_while_guesses_are_in_flight(make):
    experts = make(read=Faulty(jitter))
    experts.hint(2, [5, 6], 2)
    experts.drop_all()
    assert experts.resident(2) == set()
    experts.hint(2, [5, 6, 7], 3)
    experts.resize(1)
    assert len(experts.resident(2)) <= 1
    run(experts, 2, [1, 2, 3])
    experts.hint(3, [5], 1)


def test_complete_means_that_no_hint_is_of_use(make):
    experts = make(12)
    assert not experts.complete(2)
    run(experts, 2, list(range(11)))
    assert not experts.complete(2)
    run(experts, 2, [11])
    assert experts.complete(2)
    experts.drop_all()
    assert not experts.complete(2)


@pytest.mark.parametrize("buffer", [0, 1 << 20])
def test_a_cache_full_of_hits_leaves_room_for_several_reads(make, layers, buffer):
    """The first read ends only when a second has begun."""
    second = threading.Event()

    def meet(n):
        if n > 12:
            if n > 13:
                second.set()
            assert second.wait(5)

    experts = make(6, readers=2, pair_buffer_bytes=buffer, read=Faulty(meet))
    run(experts, 2, [6, 7, 8])
    run(experts, 2, [9, 10, 11])
    np.testing.assert_array_equal(
        run(experts, 2, list(range(12))), run(make(12), 2, list(range(12)))
    )


@pytest.mark.parametrize("buffer", [0, 1 << 20])
@pytest.mark.parametrize("scope", ["layer", "global"])
@pytest.mark.parametrize("seed", range(4))
def test_random_traffic_with_hints_faults_and_cancels(
    make, layers, seed, scope, buffer, monkeypatch
):
    """Every result right, every expert accounted for, every slot still there at the end."""
    Poison(monkeypatch)
    rng = np.random.default_rng(seed)
    cancel, read = [False], Faulty(jitter)
    experts = make(
        {1: 1, 2: 3, 3: 7},
        readers=int(rng.integers(1, 4)),
        policy=str(rng.choice([*POLICIES])),
        scope=scope,
        pair_buffer_bytes=buffer,
        read=read,
        cancelled=lambda: cancel[0],
    )

    def hint_at_random():
        for layer in rng.permutation([1, 2, 3])[: rng.integers(3)]:
            ids = rng.permutation(12)[: rng.integers(1, 12)].tolist()
            experts.hint(int(layer), ids, int(rng.integers(len(ids) + 1)))

    for _ in range(80):
        number, event = int(rng.integers(1, 4)), rng.random()
        batch = routing(rng, int(rng.integers(1, 6)), int(rng.integers(1, 6)), layers[number])
        cancel[0] = event < 0.1
        read.fault = (lambda n: io_error(n) if n % 2 else jitter(n)) if event > 0.9 else jitter
        hint_at_random()
        try:
            y = experts.run(number, *batch, hint_at_random)
        except (Cancelled, ReadError):
            assert event < 0.1 or event > 0.9
        else:
            np.testing.assert_allclose(y, expected(layers[number], *batch), rtol=1e-4, atol=1e-5)
        if event < 0.2:
            experts.expire()
    cancel[0], read.fault = False, jitter
    for number, slots in ((1, 1), (2, 3), (3, 7)):
        experts.drop_all()
        slots = 11 if scope == "global" else slots
        run(experts, number, list(range(slots)))
        assert experts.resident(number) == set(range(slots))

import threading

import numpy as np
import pytest

from colibri.experts.usage.counts import Counts, UsageRecorder
from colibri.experts.usage.recency import Recency

EXPERTS = {1: 6, 4: 6}


def ids(*rows):
    return np.array(rows, np.int32)


def test_every_selection_counts_once():
    recorder = UsageRecorder(EXPERTS, 10**15)
    recorder.note(1, ids([0, 1], [0, 2]))
    recorder.note(4, ids([5, 4], [5, 3]))
    recorder.note(1, ids([0, 5]))
    recorder.note(4, ids([1, 2]))
    counts = recorder.counts()
    assert counts.tokens == 3
    assert counts.selections == {1: 6, 4: 6}
    assert counts.heat[1].round(6).tolist() == [3, 1, 1, 0, 0, 1]
    assert counts.heat[4].round(6).tolist() == [0, 1, 1, 1, 1, 2]
    assert counts.total_selections == 12


def test_what_is_noted_may_change_afterwards():
    recorder, buffer = UsageRecorder(EXPERTS, 1000), ids([0, 1])
    recorder.note(1, buffer)
    buffer[:] = 5
    assert recorder.counts().heat[1].nonzero()[0].tolist() == [0, 1]


def test_taking_starts_anew():
    recorder = UsageRecorder(EXPERTS, 1000)
    recorder.note(1, ids([0, 1]))
    assert recorder.take().tokens == 1
    assert recorder.take().tokens == recorder.counts().total_selections == 0
    recorder.note(1, ids([3, 1]))
    assert recorder.counts().tokens == 1


def test_long_prompts_are_folded_on_the_way_and_their_tokens_counted_once():
    recorder, rows = UsageRecorder(EXPERTS, 10**15), 40_000
    for layer in EXPERTS:
        recorder.note(layer, np.tile(ids([2, 3]), (rows, 1)))
        assert recorder._pending == 0  # memory is bounded
    assert recorder.counts().tokens == rows
    assert recorder.counts().selections == {1: 2 * rows, 4: 2 * rows}


def test_a_count_halves_with_each_half_life():
    old = Counts(500, {1: 8}, {1: np.array([8.0, 0.0])})
    new = Counts(1000, {1: 3}, {1: np.array([0.0, 3.0])})
    both = old.then(new, 1000)
    assert (both.tokens, both.selections) == (1500, {1: 11})
    assert both.heat[1].tolist() == [4.0, 3.0]


def test_the_order_of_two_processes_does_not_matter_to_what_is_counted():
    a = Counts(10, {1: 20}, {1: np.array([20.0, 0.0])})
    b = Counts(30, {1: 60}, {1: np.array([0.0, 60.0])})
    ab, ba = a.then(b, 10**12), b.then(a, 10**12)
    assert ab.selections == ba.selections
    assert np.allclose(ab.heat[1], ba.heat[1])


def test_heat_of_a_longer_half_life_is_scaled_to_what_this_one_gathers():
    counts = Counts(10**7, {1: 10**7}, {1: np.array([9e6, 1e6])}).bounded(1000)
    assert counts.heat[1].sum() == pytest.approx(1000 / np.log(2))
    assert counts.heat[1][0] == pytest.approx(9 * counts.heat[1][1])
    same = Counts(100, {1: 200}, {1: np.array([150.0, 50.0])})
    assert same.bounded(1000).heat[1].tolist() == [150.0, 50.0]


def test_counts_of_a_long_prompt_age_within_it():
    recorder = UsageRecorder({1: 4}, 1000)
    recorder.note(1, np.zeros((100_000, 1), np.int32))
    assert recorder.counts().heat[1][0] == pytest.approx(1000 / np.log(2))


def test_a_peek_during_a_fold_sees_all_of_it_or_nothing(monkeypatch):
    recorder, seen, peeks = UsageRecorder(EXPERTS, 1000), [], []
    for layer in EXPERTS:
        recorder.note(layer, ids([0, 1], [2, 3], [4, 5]))
    add = Recency.add

    def interrupted(recency, layer, named, rows):
        add(recency, layer, named, rows)
        if layer == 4 and not peeks:  # layer 1 is done
            peeks.append(threading.Thread(target=lambda: seen.append(recorder.peek())))
            peeks[0].start()
            peeks[0].join(0.2)  # ends by then, unless it waits for the fold

    monkeypatch.setattr(Recency, "add", interrupted)
    recorder.counts()
    peeks[0].join(10)
    ((counts, recency),) = seen
    assert counts.selections == {1: 6, 4: 6}
    assert {n: ago.tolist() for n, ago in recency.ago().items()} == {
        n: [2, 2, 1, 1, 0, 0] for n in EXPERTS
    }

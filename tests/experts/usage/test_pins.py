import numpy as np
import pytest

from colibri.errors import ConfigError
from colibri.experts.usage.counts import Counts, UsageRecorder
from colibri.experts.usage.pins import (
    ENOUGH_SELECTIONS,
    HYSTERESIS,
    MOST_SWAPS,
    CachedLayer,
    Pins,
    pin_limits,
    revised,
)

LAYER = CachedLayer(slots=16, experts=32, slot_bytes=4096)


def counts_of(heat, selections=10**6, tokens=10**5):
    heat = {n: np.asarray(h, np.float64) for n, h in heat.items()}
    return Counts(tokens, dict.fromkeys(heat, selections), heat)


@pytest.mark.parametrize(
    ("wish", "slots", "most"),
    [
        ("auto", 16, 8),  # half of the slots
        ("auto", 12, 4),  # of 12 slots 8 stay free: the experts of two tokens
        ("auto", 8, 0),
        ("all", 24, 16),
        ("all", 16, 8),
        ("all", 6, 3),  # half of the slots, where that is less
        ("all", 3, 1),
        ("all", 1, 0),
        ("all", 32, 0),  # all experts fit
        ("0", 16, 8),
    ],
)
def test_a_layer_keeps_slots_free(wish, slots, most):
    limits = pin_limits(wish, {0: CachedLayer(slots, 32, 4096)}, experts_per_token=4)
    assert limits.most[0] == most
    assert limits.nbytes == (0 if wish == "0" else most * 4096)


def test_what_is_asked_for_is_clamped_to_what_may_be_pinned():
    layers = {0: LAYER, 1: LAYER}
    assert pin_limits("8GB", layers, 4).asked_bytes == 8 * 10**9
    assert pin_limits("8GB", layers, 4).nbytes == 16 * 4096
    assert pin_limits("20000B", layers, 4).nbytes == 20000
    assert pin_limits("25%", layers, 4).nbytes == 8 * 4096
    assert pin_limits("all", layers, 4).asked_bytes == 64 * 4096
    complete = {0: CachedLayer(32, 32, 4096)}
    assert pin_limits("8GB", complete, 4) == pin_limits("all", complete, 4)
    with pytest.raises(ConfigError):
        pin_limits("some", layers, 4)


def test_the_hottest_are_pinned_wherever_they_are():
    heat = {0: [9, 8, 7, 1] + [0] * 28, 1: [6, 1, 1, 1] + [0] * 28}
    pins = Pins("16384B", 4).revise(counts_of(heat), {0: LAYER, 1: LAYER})
    assert pins == {0: [0, 1, 2], 1: [0]}


def test_larger_experts_must_be_hotter():
    large = CachedLayer(slots=16, experts=32, slot_bytes=3 * 4096)
    heat = {0: [3.0] + [0] * 31, 1: [1.5] + [0] * 31}
    pins = Pins("12288B", 4).revise(counts_of(heat), {0: large, 1: LAYER})
    assert pins == {0: [], 1: [0]}


def test_experts_never_used_are_not_pinned():
    pins = Pins("all", 4).revise(counts_of({0: [0, 0, 5] + [0] * 29}), {0: LAYER})
    assert pins == {0: [2]}


def test_auto_waits_until_enough_is_known():
    pins, heat = Pins("auto", 4), np.arange(32.0)
    few = counts_of({0: heat}, selections=ENOUGH_SELECTIONS * 32 - 1)
    assert not any(pins.revise(few, {0: LAYER}).values())
    enough = counts_of({0: heat}, selections=ENOUGH_SELECTIONS * 32)
    assert pins.revise(enough, {0: LAYER})[0] == list(range(31, 23, -1))
    assert Pins("all", 4).revise(few, {0: LAYER})[0]


def test_a_pin_goes_only_for_a_clearly_hotter_expert():
    heat = np.array([10.0, 10.0, 10 * (1 + HYSTERESIS), 0.0])
    assert revised([0, 1], heat, 2) == [0, 1]
    heat[2] += 0.01
    assert revised([0, 1], heat, 2) == [2, 0]


def test_few_pins_change_at_a_time():
    heat = np.array([1.0] * 8 + [100.0] * 8)
    pins = list(range(8))
    for swapped in (MOST_SWAPS, 2 * MOST_SWAPS):
        pins = revised(pins, heat, 8)
        assert sum(e >= 8 for e in pins) == min(swapped, 8)


def test_a_smaller_quota_lets_the_coldest_go_and_a_larger_one_is_filled():
    heat = np.array([4.0, 3.0, 2.0, 1.0])
    assert revised([0, 1, 2, 3], heat, 2) == [0, 1]
    assert revised([0, 1], heat, 3) == [0, 1, 2]
    assert revised([0, 1], heat, 0) == []


def test_pins_follow_a_new_workload_however_long_the_history():
    """B033: after ten million selections of one set of experts another one takes over."""
    half_life, k = 1000, 4
    recorder = UsageRecorder({0: 32}, half_life)
    for _ in range(100):
        recorder.note(0, np.tile(np.arange(8, dtype=np.int32), (12_500, 1)))
    old = recorder.take()
    assert old.total_selections == 10**7
    pins, layers = Pins("auto", k), {0: LAYER}
    assert set(pins.revise(old, layers)[0]) == set(range(8))
    known = old
    for _ in range(15):  # turns of 100 tokens: one and a half half-lives
        recorder.note(0, np.tile(np.arange(8, 16, dtype=np.int32), (100, 1)))
        known = known.then(recorder.take(), half_life)
        pinned = pins.revise(known, layers)[0]
    assert set(pinned) == set(range(8, 16))

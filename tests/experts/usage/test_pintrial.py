import numpy as np
import pytest

from colibri.experts.cache.policies import make_policy
from colibri.experts.usage.pins import CachedLayer
from colibri.experts.usage.pintrial import CALLS_KEPT, FEWEST_DEMANDS, PinTrial, Shadow

LAYER = CachedLayer(slots=12, experts=32, slot_bytes=4096)
PINS = {0: range(6), 1: range(6)}


def ask(trial, rng, chances, calls=200):
    for asked in trial.calls.values():
        for _ in range(calls):
            ids = rng.choice(32, (1, 4), replace=False, p=chances / chances.sum())
            asked.append(ids.astype(np.int32).tobytes())


def skewed(first):
    """Six experts are asked for far more than the others."""
    chances = np.ones(32)
    chances[first : first + 6] = 12
    return chances


@pytest.mark.parametrize("policy", ["lru"])
def test_pins_are_held_where_they_pay_and_let_go_where_they_lose(policy):
    rng, trial = np.random.default_rng(1), PinTrial({0: LAYER, 1: LAYER}, policy)
    assert not trial.judge(PINS)
    ask(trial, rng, skewed(0))
    assert trial.judge(PINS)
    assert not any(trial.calls.values())
    assert trial.judge(PINS)  # nothing new, nothing changed
    for _ in range(8):
        ask(trial, rng, skewed(16))  # the work has changed, the pins have not
        trial.judge(PINS)
    assert not trial.pays


def test_pins_that_make_no_difference_are_not_held():
    trial = PinTrial({0: LAYER}, "lru")
    ask(trial, np.random.default_rng(1), np.ones(32))
    assert not trial.judge({0: []})


def test_little_is_no_judgement():
    trial = PinTrial({0: LAYER}, "lru")
    ask(trial, np.random.default_rng(1), skewed(0), FEWEST_DEMANDS // 4 - 1)
    assert not trial.judge(PINS)
    ask(trial, np.random.default_rng(2), skewed(0), 200)
    assert trial.judge(PINS)


def test_few_layers_are_watched_and_none_that_is_complete():
    complete = CachedLayer(32, 32, 4096)
    many = {n: complete if n < 4 else LAYER for n in range(40)}
    trial = PinTrial(many, "lru")
    assert len(trial.calls) == 2
    assert min(trial.calls) >= 4
    assert PinTrial({0: complete}, "lru").calls == {}
    assert all(calls.maxlen == CALLS_KEPT for calls in trial.calls.values())


def test_a_shadow_counts_the_hits_of_such_a_cache():
    shadow = Shadow(CachedLayer(3, 8, 4096), make_policy("lru"))
    shadow.hold([7])
    assert shadow.demand([0, 7]) == 0
    assert shadow.demand([0, 1, 7]) == 2
    assert shadow.demand([2, 3]) == 0
    assert shadow.demand([0, 7]) == 1  # the pin stayed
    shadow.hold([])
    assert shadow.demand([0, 1, 2, 3, 4, 5]) == 2
    assert shadow.demand([7]) == 0

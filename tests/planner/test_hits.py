import numpy as np
import pytest

from colibri.planner.hits import expected_hit_rate


@pytest.mark.parametrize(("slots", "k", "experts"), [(1, 1, 4), (4, 2, 16), (13, 8, 288)])
def test_even_draws_hit_by_the_share_that_is_held(slots: int, k: int, experts: int) -> None:
    assert expected_hit_rate(slots, k, [1.0] * experts) == pytest.approx(slots / experts, abs=1e-6)


def test_everything_held() -> None:
    assert expected_hit_rate(16, 2, [1.0] * 16) == 1.0
    assert expected_hit_rate(3, 2, [5.0, 1.0, 1.0, 0.0]) == 1.0  # the fourth is never chosen


def test_what_every_token_takes_always_hits() -> None:
    """One expert for certain, the other place among 15."""
    rate = expected_hit_rate(4, 2, [1e9] + [1.0] * 15)
    assert rate == pytest.approx((1 + 3 / 15) / 2, abs=0.01)


def test_near_to_a_simulated_lru() -> None:
    rng = np.random.default_rng(0)
    popularity = 1 / np.arange(1, 33)
    held: list[int] = []
    hits = asked = 0
    for _ in range(20_000):
        (expert,) = rng.choice(32, 1, p=popularity / popularity.sum()).tolist()
        asked += 1
        if expert in held:
            hits += 1
            held.remove(expert)
        elif len(held) == 8:
            held.pop(0)
        held.append(expert)
    expected = expected_hit_rate(8, 1, popularity.tolist())
    assert expected == pytest.approx(hits / asked, abs=0.02)

"""Speeds from rates: by hand on a model made of numbers."""

import dataclasses
from typing import Any

import pytest
from made_model import Made, made_layer

from colibri.config import EngineConfig
from colibri.models.family import Sizes
from colibri.planner.advice import Question, advise
from colibri.planner.budget import Machine
from colibri.planner.forecast import (
    DISK_SHARE,
    LAYER_SECONDS,
    MEMORY_SHARE,
    TOKEN_SECONDS,
    Rates,
    forecast,
)
from colibri.planner.model import expert_bytes
from colibri.words import three_digits

GB = 10**9
MODEL = Made({0: made_layer(1_000_000), 1: made_layer(1_000_000)})
SIZES = Sizes(0, 10_000, 1_000, experts_per_token=4)
RATES = Rates(memory=10.0 * GB, disk=1.0 * GB)


def question(model: Made = MODEL, rates: Rates = RATES, **settings: Any) -> Question:
    config = EngineConfig(**{"context": 1024, "prefill_chunk": 32, "ram": "1GB"} | settings)
    return Question(config, model, SIZES, 4096, 128, Machine(4 * GB, 2 * GB, 10**8), rates)


def expected(q: Question) -> Any:
    return forecast(q.plan(), q.model, q.rates, q.popularity)


def test_bytes_and_time_of_a_token_by_hand() -> None:
    found = expected(question(cache_experts=4))
    assert found.hit_rate == pytest.approx(0.25, abs=1e-6)
    assert found.disk_bytes_per_token == pytest.approx(2 * 4 * 0.75 * 1_000_000, rel=1e-5)
    experts = 2 * 4 * expert_bytes(MODEL.layers[0].layout)
    plan = question(cache_experts=4).plan()
    assert found.memory_bytes_per_token == experts + plan.trunk_bytes
    dense = plan.trunk_bytes / (10 * GB)
    assert 1 / found.most_tokens_per_second == pytest.approx(6_000_000 / GB + dense, rel=1e-4)
    interpreter = TOKEN_SECONDS + 2 * LAYER_SECONDS
    about = 6_000_000 / GB / DISK_SHARE + dense / MEMORY_SHARE + interpreter
    assert 1 / found.tokens_per_second == pytest.approx(about, rel=1e-4)
    assert found.bottleneck == "disk"


@pytest.mark.parametrize(
    ("rates", "bottleneck"),
    [
        (Rates(memory=10.0, disk=1e12), "memory"),
        (Rates(memory=10.0, disk=1e12, compute=9.0), "memory"),  # 6.8 of memory's 10 are reached
        (Rates(memory=10.0, disk=1e12, compute=5.0), "compute"),
        (Rates(memory=1e12, disk=10.0), "disk"),
        (Rates(memory=1e12, disk=1e12), "interpreter"),
    ],
)
def test_what_a_token_waits_for(rates: Rates, bottleneck: str) -> None:
    assert expected(question(rates=rates, cache_experts=8)).bottleneck == bottleneck


def test_no_speed_without_a_rate_that_matters() -> None:
    for rates in (Rates(), Rates(disk=1.0 * GB), Rates(memory=1.0 * GB)):
        found = expected(question(rates=rates, cache_experts=4))
        assert found.tokens_per_second is found.bottleneck is None
        assert found.disk_bytes_per_token > 0
    resident = expected(question(rates=Rates(memory=1.0 * GB)))
    assert resident.hit_rate == 1
    assert resident.tokens_per_second > 0


def test_usage_makes_more_hits_than_even_draws() -> None:
    skewed = {n: [1 / (i + 1) for i in range(16)] for n in MODEL.layers}
    q = dataclasses.replace(question(cache_experts=4), popularity=skewed)
    assert expected(q).hits_from == "usage"
    assert expected(q).hit_rate > expected(question(cache_experts=4)).hit_rate + 0.05


def test_a_tied_head_is_multiplied_too() -> None:
    plan = question().plan()
    tied = dataclasses.replace(plan, head_bytes=0, trunk_bytes=plan.trunk_bytes - plan.head_bytes)
    found = forecast(tied, MODEL, RATES)
    grown = tied.embedding_bytes - plan.head_bytes
    assert found.memory_bytes_per_token == expected(question()).memory_bytes_per_token + grown


def test_advice_is_worth_something_and_in_order() -> None:
    wide = Made({n: made_layer(100_000_000, scheme="bf16") for n in range(2)}, rows=100_000)
    found = advise(question(wide))
    changes = [advice.change for advice in found]
    assert "1 GB more RAM" in changes
    assert "experts at 4 bits (coli convert)" in changes
    gains = [advice.gain for advice in found]
    assert gains == sorted(gains, reverse=True)
    assert min(gains) > 0


def test_what_has_no_effect_is_not_advised() -> None:
    """All resident and packed: neither a disk nor memory for slots helps."""
    packed = dataclasses.replace(MODEL, stored_bits=4, stored_embed_bits=4)
    asked = question(packed, Rates(memory=0.1 * GB, disk=1.0 * GB), embed_bits=4)
    assert [advice.change for advice in advise(asked)] == ["memory twice as fast"]


def test_no_advice_for_what_does_not_fit() -> None:
    assert advise(question(ram="1MB")) == []


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0"),
        (0.08811, "0.0881"),
        (8.4, "8.40"),
        (9.996, "10.00"),
        (306.7, "307"),
        (999.6, "1,000"),
        (77208.15, "77,200"),
    ],
)
def test_an_estimate_is_shown_with_three_digits(value: float, shown: str) -> None:
    assert three_digits(value) == shown

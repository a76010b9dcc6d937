"""The plan adds up, keeps its budget, and says what is missing when it cannot."""

import math
from typing import Any

import pytest

import golden
from colibri.config import EngineConfig
from colibri.container.reader import open_container
from colibri.errors import CapacityError, ConfigError
from colibri.models.family import Sizes
from colibri.models.registry import family_for
from colibri.planner.budget import Machine
from colibri.planner.plan import Plan, make_plan

GB = 10**9
MACHINE = Machine(total_bytes=16 * GB, available_bytes=8 * GB, rss_bytes=60_000_000)


def plan_for(family: str = "qwen3_moe", machine: Machine = MACHINE, **settings: Any) -> Plan:
    container = open_container(golden.tiny(family), lambda c: family_for(c).weights_of(c))
    sizes = Sizes(state_bytes=2_000, activation_bytes=10_000, pair_bytes=1_000)
    return make_plan(EngineConfig(**settings), container, sizes, 4096, 128, machine)


@pytest.mark.parametrize("family", golden.FAMILIES)
def test_everything_fits_a_large_machine(family: str) -> None:
    plan = plan_for(family)
    assert plan.slots == plan.experts_per_layer
    assert plan.peak_bytes <= plan.budget_bytes < 8 * GB
    assert "peak" in "\n".join(plan.lines())


def test_slots_shrink_with_the_budget_and_never_break_it() -> None:
    least = plan_for(ram="4GB", cache_experts=1, prefill_chunk=32).peak_bytes
    counts = []
    for spare in (0, 100_000, 200_000, 400_000):
        plan = plan_for(ram=f"{least + spare}B", prefill_chunk=32)
        assert plan.peak_bytes <= plan.budget_bytes
        counts.append(min(plan.slots.values()))
    assert counts[0] == 1
    assert counts == sorted(counts)
    assert counts[-1] > 1


def test_refusal_names_the_least_that_works() -> None:
    least = plan_for(ram="4GB", cache_experts=1, prefill_chunk=32).peak_bytes
    with pytest.raises(CapacityError, match=f"{math.ceil(least / 1e6):,} MB"):
        plan_for(ram=f"{least - 1}B", prefill_chunk=32)


@pytest.mark.parametrize("ram", ["17GB", "100000GB"])
def test_more_than_the_machine_has(ram: str) -> None:
    with pytest.raises(CapacityError, match="more than"):
        plan_for(ram=ram)


def test_slots_by_hand_are_held_to_the_budget_too() -> None:
    assert set(plan_for(cache_experts=3).slots.values()) == {3}
    assert set(plan_for(cache_experts=1000).slots.values()) == {8}
    small = plan_for(ram="4GB", cache_experts=1, prefill_chunk=32).peak_bytes
    with pytest.raises(CapacityError):
        plan_for(ram=f"{small}B", cache_experts=8, prefill_chunk=32)


def test_context_is_reserved_and_bounded() -> None:
    assert plan_for(context=1000).state_bytes == 2_000_000
    assert plan_for().context == 4096
    with pytest.raises(ConfigError, match="4096"):
        plan_for(context=5000)


def test_trunk_bits_are_the_models_property() -> None:
    assert plan_for().trunk_bits == 8
    assert plan_for(machine=Machine(16 * GB, 300_000_000, 60_000_000)).trunk_bits == 8
    exact, packed = plan_for(trunk_bits="source"), plan_for(trunk_bits=8)
    assert exact.trunk_bytes > packed.trunk_bytes


def test_refusal_advises_only_what_helps() -> None:
    with pytest.raises(CapacityError, match=r"--context or --trunk-bits or --prefill-chunk\."):
        plan_for(ram="1MB")
    with pytest.raises(CapacityError, match=r"lower --context or --cache-experts\."):
        plan_for(ram="1MB", trunk_bits=4, cache_experts=2, prefill_chunk=1)


def test_a_chunk_is_no_longer_than_the_context() -> None:
    assert plan_for(prefill_chunk=1_000_000, context=512).prefill_chunk == 512
    assert plan_for(prefill_chunk=7, context=512).prefill_chunk == 7

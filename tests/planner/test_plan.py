"""The plan adds up, keeps its budget, and says what is missing when it cannot."""

import dataclasses
import math
from typing import Any

import pytest
from made_model import Made, made_layer

import golden
from colibri.config import EngineConfig
from colibri.container.reader import open_container
from colibri.container.spec import align, record_bytes
from colibri.errors import CapacityError, ConfigError
from colibri.experts.cache.arena import Arena
from colibri.experts.stored import SLOTS
from colibri.formats.packed import INT4
from colibri.kernels.moe import ExpertLayout
from colibri.models.family import Sizes
from colibri.models.registry import family_for
from colibri.planner.budget import Machine
from colibri.planner.forecast import Rates, forecast
from colibri.planner.model import ConvertedLayer
from colibri.planner.plan import PROCESS_BYTES, WORKING_BYTES, Plan, draft_plan, make_plan
from colibri.text.tokenizermemory import TokenizerMemory

GB = 10**9
MACHINE = Machine(total_bytes=16 * GB, available_bytes=8 * GB, rss_bytes=60_000_000)


SIZES = Sizes(state_bytes=2_000, activation_bytes=10_000, pair_bytes=1_000)


def plan_for(family: str = "qwen3_moe", machine: Machine = MACHINE, **settings: Any) -> Plan:
    container = open_container(golden.tiny(family), lambda c: family_for(c).weights_of(c))
    return make_plan(EngineConfig(**settings), container, SIZES, 4096, 128, machine)


def widths(*slot_bytes: int) -> Made:
    return Made({n: made_layer(size) for n, size in enumerate(slot_bytes)})


def plan_of(model: Made, sizes: Sizes = SIZES, experts_per_token: int = 1, **settings: Any) -> Plan:
    sizes = dataclasses.replace(sizes, experts_per_token=experts_per_token)
    return make_plan(EngineConfig(**settings), model, sizes, 4096, 128, MACHINE)


@pytest.mark.parametrize("family", golden.FAMILIES)
def test_everything_fits_a_large_machine(family: str) -> None:
    plan = plan_for(family)
    assert plan.slots == plan.experts_per_layer
    assert plan.peak_bytes <= plan.budget_bytes < 8 * GB
    assert "peak" in "\n".join(plan.lines())


def test_three_bits_make_room_for_more_experts() -> None:
    layout = ExpertLayout(INT4, 2048, 768)
    stored_bytes = record_bytes(INT4, 2048, 768)
    model = Made({n: ConvertedLayer(64, stored_bytes, False, layout) for n in range(4)})
    few: dict[str, Any] = {"ram": "410MB", "prefill_chunk": 32, "readers": 2}
    stored, narrow = (plan_of(model, cache_bits=b, **few) for b in ("stored", 3))
    assert narrow.slot_bytes[0] == align(3 * 2048 * 768 * 13 // 32)  # 3.25 bits a weight
    assert narrow.slots[0] > 1.2 * stored.slots[0]
    unchecked = plan_of(model, cache_bits=3, approx_check="off", **few)
    assert unchecked.buffer_bytes == 4 * stored_bytes
    assert narrow.buffer_bytes == (4 + SLOTS) * stored_bytes
    assert sum(item.nbytes for item in narrow.items()) == narrow.peak_bytes <= 410_000_000
    assert "at 3 bits" in "\n".join(narrow.lines())
    at = Rates(memory=1e9, disk=1e9)
    one, other = (forecast(plan, model, at) for plan in (stored, narrow))
    assert other.memory_bytes_per_token < one.memory_bytes_per_token
    assert other.disk_bytes_per_token < one.disk_bytes_per_token
    with pytest.raises(ConfigError, match=r"bf16.*coli convert"):
        plan_of(Made({0: made_layer(4096, scheme="bf16")}), cache_bits=3)


@pytest.mark.parametrize("family", golden.FAMILIES)
@pytest.mark.parametrize("context", [64, 4096])
def test_whatever_is_at_least_the_least_fits(family: str, context: int) -> None:
    def peak(nbytes: int) -> int:
        container = open_container(golden.tiny(family), lambda c: family_for(c).weights_of(c))
        config = EngineConfig(ram=f"{nbytes}B", context=context)
        return draft_plan(config, container, sizes, 4096, 150_000, MACHINE, tokenizer).peak_bytes

    sizes = dataclasses.replace(SIZES, activation_bytes=300_000, index_pool=4)
    tokenizer = TokenizerMemory(50_000_000, 50_000_000, 60_000_000)
    least = peak(1)
    for more in range(0, 60_000_000, 1_700_000):  # a longer chunk must not take what slots need
        assert peak(least + more) <= least + more
    assert peak(least - 1) == least


def test_reading_a_tokenizer_may_be_the_peak() -> None:
    small = widths(1000)
    plain = make_plan(EngineConfig(context=64), small, SIZES, 4096, 128, MACHINE)
    tokenizer = TokenizerMemory(50_000_000, 50_000_000, 150_000_000, source="of some entries")
    plan = make_plan(EngineConfig(context=64), small, SIZES, 4096, 128, MACHINE, tokenizer)
    assert plan.peak_bytes == PROCESS_BYTES + tokenizer.loading
    assert sum(item.nbytes for item in plan.items()) == plan.peak_bytes
    assert [item.name for item in plan.items()][-1] == "loading"
    assert plan.slots == plain.slots
    large = TokenizerMemory(49_000_000, 50_000_000, 51_000_000, structures=7_000_000)
    plan = make_plan(EngineConfig(context=64), small, SIZES, 4096, 128, MACHINE, large)
    assert plan.peak_bytes == plain.peak_bytes + 57_000_000
    assert {item.name: item.nbytes for item in plan.items()}["structures"] == 7_000_000


def test_the_process_counts_alike_in_every_command() -> None:
    peaks = {
        make_plan(
            EngineConfig(), widths(1000), SIZES, 4096, 128, Machine(16 * GB, 8 * GB, rss)
        ).process_bytes
        for rss in (48_000_000, 57_000_000, PROCESS_BYTES)
    }
    assert peaks == {PROCESS_BYTES + WORKING_BYTES}
    grown = Machine(16 * GB, 8 * GB, 300_000_000)  # a program that holds data of its own
    plan = make_plan(EngineConfig(), widths(1000), SIZES, 4096, 128, grown)
    assert plan.process_bytes == 300_000_000 + WORKING_BYTES


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


@pytest.mark.parametrize("family", golden.FAMILIES)
def test_the_budget_of_the_trunk_and_two_slots_gives_two_slots(family: str) -> None:
    """B025."""
    least = plan_for(family, ram="4GB", cache_experts=2, prefill_chunk=32).peak_bytes
    plan = plan_for(family, ram=f"{least}B", prefill_chunk=32)
    assert set(plan.slots.values()) == {2}
    assert plan.peak_bytes == least
    with pytest.raises(CapacityError, match="does not suffice"):
        plan_for(family, ram=f"{plan.trunk_bytes}B")


def test_slots_cost_what_they_are_wide_each_in_its_layer() -> None:
    """B023: one layer's experts at 8 bits beside others at 4: the widest are not the narrowest."""
    model = widths(4096, 4096, 8192)
    least = plan_of(model, ram="4GB", cache_experts=1, prefill_chunk=32).peak_bytes
    plan = plan_of(model, ram=f"{least + 3 * 16384}B", prefill_chunk=32)
    assert plan.slots == {0: 4, 1: 4, 2: 4}
    assert plan.arena_bytes == 4 * (4096 + 4096 + 8192)
    arena = Arena({4096: plan.slots[0] + plan.slots[1], 8192: plan.slots[2]})
    assert arena.nbytes == plan.arena_bytes
    arena.close()


def test_fewer_slots_than_a_token_wants_say_what_is_missing() -> None:
    model = widths(1_000_000, 1_000_000)
    notes = plan_of(model, ram="4GB", cache_experts=3, experts_per_token=4).notes
    assert len(notes) == 1
    assert notes[0].startswith("3 of the 4 experts")
    assert "2 MB more" in notes[0]
    assert plan_of(model, ram="4GB", cache_experts=4, experts_per_token=4).notes == ()


def test_the_items_are_the_peak() -> None:
    for family in golden.FAMILIES:
        plan = plan_for(family)
        assert sum(item.nbytes for item in plan.items()) == plan.peak_bytes
        assert plan.head_bytes < plan.trunk_bytes
        layers = sum(plan.layer_trunk_bytes.values())
        assert plan.trunk_bytes - plan.head_bytes - layers < 1000  # the last norm


def test_state_that_a_sequence_has_whatever_its_length() -> None:
    sizes = dataclasses.replace(SIZES, sequence_bytes=5_000)
    assert plan_of(widths(4096), sizes, context=100).state_bytes == 205_000


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

import dataclasses
from typing import Any

import pytest
from made_model import Made, made_layer

from colibri.config import EngineConfig
from colibri.models.family import Sizes
from colibri.planner.budget import Machine
from colibri.planner.forecast import Rates, forecast
from colibri.planner.outcome import Row, Run, outcome
from colibri.planner.plan import WORKING_BYTES, Plan, draft_plan

GB = 10**9
MODEL = Made({0: made_layer(1_000_000), 1: made_layer(1_000_000)}, rows=4096)
RUN = Run(
    loaded_rss_bytes=0,
    peak_rss_bytes=0,
    slots_bytes=3_000_000,
    prompt_tokens=16,
    new_tokens=84,
    hits=30,
    misses=70,
    bytes_read=84 * 6_000_000,
    seconds=42.0,
)


def plan() -> Plan:
    config = EngineConfig(ram="1GB", context=1000, prefill_chunk=32, cache_experts=4)
    sizes = Sizes(5_000, 10_000, 1_000, experts_per_token=4)
    return draft_plan(config, MODEL, sizes, 4096, 128, Machine(4 * GB, 2 * GB, 10**8))


def rows(**changes: float) -> dict[str, Row]:
    p = plan()
    run = dataclasses.replace(RUN, **changes)
    expected = forecast(p, MODEL, Rates(memory=10.0 * GB, disk=1.0 * GB))
    return {row.name: row for row in outcome(p, expected, run)}


def test_what_the_run_had_no_use_for_is_not_expected() -> None:
    p = plan()
    fixed = p.process_bytes + p.trunk_bytes + p.embedding_bytes
    # A tenth of the context, half of a chunk, 3 of 8 slots.
    used = fixed + p.state_bytes // 10 + p.activation_bytes // 2 + 3_000_000
    found = rows(peak_rss_bytes=used, loaded_rss_bytes=fixed - WORKING_BYTES)
    assert found["peak"].planned == used
    assert found["loaded"].deviation == found["peak"].deviation == 0
    assert f"{(p.peak_bytes - used) / 1e6:,.1f} MB not used yet" in found["peak"].note


def test_a_deviation_of_more_than_a_twentieth_is_said() -> None:
    found = rows()
    assert found["hit rate"].planned == pytest.approx(0.25, abs=1e-6)
    assert found["hit rate"].measured == 0.3
    assert found["hit rate"].deviation == pytest.approx(0.2, abs=1e-5)
    assert found["hit rate"].differs
    assert found["disk per token"].deviation == pytest.approx(0, abs=1e-5)
    assert not found["disk per token"].differs
    assert found["speed"].measured == 2.0
    assert Row("x", "bytes", 100, 104).differs is False
    assert Row("x", "bytes", 100, 94).differs is True
    assert Row("x", "bytes", 0, 1).differs is True
    assert Row("x", "bytes", 0, 0).differs is False


@pytest.mark.parametrize(
    ("unit", "planned", "measured", "worse"),
    [
        ("bytes", 108e6, 116e6, False),  # within what Python differs by
        ("bytes", 108e6, 60e6, False),  # less is welcome
        ("bytes", 108e6, 130e6, True),
        ("bytes", 10e9, 10.4e9, False),
        ("bytes", 10e9, 10.6e9, True),
        ("bytes", 0, 20_000, False),
        ("share", 1.0, 0.97, False),
        ("share", 1.0, 0.90, True),
        ("share", 0.25, 0.54, False),
        ("tok/s", 100, 92, False),
        ("tok/s", 100, 85, True),
        ("tok/s", 100, 300, False),
        ("tok/s", None, 300, False),
        ("share", 0.5, None, False),
    ],
)
def test_only_what_is_worse_than_planned_is_an_alarm(
    unit: Any, planned: float | None, measured: float | None, worse: bool
) -> None:
    assert Row("x", unit, planned, measured).worse is worse


def test_what_did_not_happen_is_not_compared() -> None:
    found = rows(new_tokens=0, hits=0, misses=0, seconds=0.0)
    for name in ("hit rate", "disk per token", "speed"):
        assert found[name].measured is found[name].deviation is None
        assert not found[name].differs

"""Whole runs on synthetic models of several families."""

import dataclasses

import pytest
from lab_kit import DENSE, FLASH, GLM, OLMOE

from colibri.config import EngineConfig
from colibri.errors import CapacityError, ConfigError
from colibri.lab import synthetic
from colibri.lab.facts import lines
from colibri.lab.measure import measure
from colibri.lab.report import page
from colibri.lab.summary import summarise
from colibri.lab.synthetic import Recipe
from colibri.lab.workload import Workload

SMALL = Workload(prompt_tokens=12, new_tokens=4, warmup=0, repeat=2, routing="zipf:1,persist:0.5")


@pytest.mark.parametrize("shape", [OLMOE, GLM, FLASH, DENSE], ids=lambda s: s.name)
def test_a_synthetic_model_is_measured(shape, tmp_path, gauge):
    path = synthetic.ensure(Recipe(shape), tmp_path)
    config = EngineConfig(model=str(path), ram="1GB")
    results = summarise(measure(config, SMALL, gauge=gauge, cache_fraction=0.5), ["coli", "bench"])
    sparse = shape is not DENSE
    assert results.model.synthetic
    assert (results.decode.hit_rate is not None) == sparse
    assert (results.hardware.disk_bandwidth is not None) == sparse
    assert results.plan.slots_per_layer == (4 if sparse else 0)
    assert results.plan.context == SMALL.tokens
    assert page(results)


def test_the_same_seed_routes_the_same_way(tmp_path, gauge):
    path = synthetic.ensure(Recipe(OLMOE), tmp_path)
    config = EngineConfig(model=str(path), ram="1GB")
    traces = [tmp_path / f"{n}.trace" for n in range(3)]
    for trace, seed in zip(traces, (1, 1, 2), strict=True):
        workload = dataclasses.replace(SMALL, seed=seed)
        measure(config, workload, gauge=gauge, cache_fraction=0.25, record=trace)
    first, same, other = (trace.read_bytes() for trace in traces)
    assert first == same != other


def test_what_cannot_be_recorded_is_refused(tmp_path, gauge):
    path = synthetic.ensure(Recipe(DENSE), tmp_path)
    with pytest.raises(ConfigError, match="no routed experts"):
        measure(EngineConfig(model=str(path), ram="1GB"), SMALL, gauge=gauge, record=tmp_path / "t")


def test_a_budget_that_does_not_suffice_is_refused(tmp_path, gauge):
    path = synthetic.ensure(Recipe(OLMOE), tmp_path)
    with pytest.raises(CapacityError, match="does not suffice"):
        measure(EngineConfig(model=str(path), ram="1MB"), SMALL, gauge=gauge)


def test_reads_ahead_are_accounted_for(tmp_path, gauge):
    path = synthetic.ensure(Recipe(OLMOE), tmp_path)
    config = EngineConfig(model=str(path), ram="1GB", lookahead=1)
    workload = dataclasses.replace(SMALL, routing="guess:1", new_tokens=8)
    results = summarise(measure(config, workload, gauge=gauge, cache_fraction=0.5), ["coli"])
    found = results.decode.lookahead
    assert found.recall == 1
    assert found.precision == 1
    assert 0 < found.useful_per_token <= found.reads_per_token


@pytest.mark.parametrize("routing", ["model", "persist:0.5"])
def test_conversations_at_once_are_held_against_their_unions(tmp_path, gauge, routing):
    path = synthetic.ensure(Recipe(OLMOE), tmp_path)
    config = EngineConfig(model=str(path), ram="1GB")
    workload = dataclasses.replace(SMALL, conversations=3, new_tokens=9, routing=routing)
    measured = measure(config, workload, gauge=gauge, cache_fraction=0.5)
    results = summarise(measured, ["coli"])
    found = results.conversations
    assert all(record.rows == 3 for run in measured.together for record in run)
    assert [len(run) for run in measured.together] == [8, 8]
    assert found.union_one == 2 * 2  # a token's choice in each of two layers
    assert found.union_one < found.union <= 3 * found.union_one
    assert found.predicted_gain == pytest.approx(3 * found.union_one / found.union)
    assert found.of_predicted == pytest.approx(found.gain / found.predicted_gain)
    assert found.gain == pytest.approx(3 * found.step_seconds_one / found.step_seconds)
    assert found.by_reads.read_seconds == found.by_reads.read_seconds_one > 0  # of the fixed disk
    assert found.by_reads.of_predicted == pytest.approx(found.gain / found.by_reads.predicted_gain)
    assert any("of the unions' gain" in line for line in lines(results))
    assert any("with what is missing" in line for line in lines(results))
    assert results.plan.context == 3 * workload.tokens


def test_too_few_tokens_to_hold_all_conversations_is_an_error(tmp_path, gauge):
    path = synthetic.ensure(Recipe(OLMOE), tmp_path)
    config = EngineConfig(model=str(path), ram="1GB", prefill_chunk=4)
    workload = dataclasses.replace(SMALL, conversations=4, new_tokens=2)
    with pytest.raises(ConfigError, match="--conversations"):
        summarise(measure(config, workload, gauge=gauge), ["coli"])

"""Phases partition a step's wall time; native time and waits go where they belong."""

import time

import numpy as np
import pytest

from colibri.kernels import ops
from colibri.lab.clock import PHASES, StepClock, by_layer, by_phase


class Executor:
    """As much of StreamedExperts as the clock reads."""

    def __init__(self):
        self.wait_seconds = 0.0


def clocked():
    clock, executor = StepClock(), Executor()
    clock._waited = lambda: executor.wait_seconds
    return clock, executor


def test_phases_sum_to_the_step_and_name_who_took_it():
    """B103."""
    clock, executor = clocked()
    x = np.ones((64, 4096), np.float32)
    clock.begin(False, 1)
    clock.enter("attention", 0)
    for _ in range(20):
        ops.sigmoid(x)
    clock.enter("experts")
    time.sleep(0.02)
    executor.wait_seconds += 0.015
    clock.end()
    (record,) = clock.take()
    seconds = by_phase([record])
    assert set(seconds) == set(PHASES)
    assert sum(seconds.values()) == pytest.approx(record.wall, abs=1e-6)
    assert seconds["attention"] > 0
    assert seconds["expert_wait"] == pytest.approx(0.015)
    assert seconds["expert_matmul"] == 0
    assert seconds["python"] >= 0.005 - 1e-6


def test_layers_sum_to_the_step_too():
    clock, _ = clocked()
    clock.begin(True, 5)
    for layer in range(3):
        clock.enter("attention", layer)
        clock.enter("dense")
    clock.enter("head", -1)
    clock.end()
    (record,) = clock.take()
    layers = by_layer(record)
    assert set(layers) == {-1, 0, 1, 2}
    total = sum(sum(phases.values()) for phases in layers.values())
    assert total == pytest.approx(record.wall, abs=1e-6)
    spans = list(record.spans())
    assert [s.phase for s in spans if s.layer == 1] == ["attention", "dense"]
    assert (record.prefill, record.rows) == (True, 5)


def test_a_real_run_is_accounted_for(measured):
    for answer in measured.answers:
        assert sum(r.rows for r in answer.prefill) == 24
        assert len(answer.decode) == 5
        for record in [*answer.prefill, *answer.decode]:
            assert sum(by_phase([record]).values()) == pytest.approx(record.wall, rel=1e-3)
            for span in record.spans():
                assert span.native >= 0
                assert span.wait >= 0
                # The two clocks are read one after the other.
                assert span.native + span.wait <= span.wall + 1e-4


def test_every_phase_of_a_model_with_all_parts_is_seen(measured):
    seen = {s.phase for a in measured.answers for r in a.decode for s in r.spans()}
    wanted = {"attention", "dense", "route", "experts", "shared_expert", "head", "sampling"}
    assert wanted <= seen
    seconds = by_phase([r for a in measured.answers for r in a.decode])
    assert all(seconds[p] > 0 for p in ("route", "expert_matmul", "attention", "head"))

"""What several conversations at once are predicted to gain."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from colibri.errors import ConfigError
from colibri.lab.clock import Mark, StepRecord
from colibri.lab.counters import Counters
from colibri.lab.together import conversations

Layers = Mapping[int, tuple[int, int]]  # hits and misses
MS = 1_000_000  # nanoseconds


def run(steps: int, seconds: float, rows: int, layers: Layers) -> list[StepRecord]:
    """Steps one after the other, in each 4 ms of experts multiplied and 1 ms waited for."""
    found = []
    for number in range(steps):
        begin = round(number * seconds * 1e9)
        marks: list[Mark] = [
            ("attention", 0, begin, 0, 0.0),
            ("experts", 0, begin + 2 * MS, 2 * MS, 0.0),
            ("attention", 1, begin + 5 * MS, 4 * MS, 0.001),
            ("experts", 1, begin + 6 * MS, 5 * MS, 0.001),
            ("head", -1, begin + 8 * MS, 7 * MS, 0.001),
            ("other", -1, begin + 9 * MS, 8 * MS, 0.001),
        ]
        found.append(StepRecord(False, rows, marks, Counters(layers=layers)))
    return found


ALONE = run(3, 0.012, 1, {0: (3, 1), 1: (4, 0)})
TOGETHER = run(4, 0.020, 3, {0: (4, 4), 1: (6, 0)})


def test_a_step_takes_its_rest_and_the_longer_of_reading_and_multiplying_in_each_layer() -> None:
    found = conversations(3, [ALONE, ALONE], [TOGETHER], read_one=0.003, read=0.002)
    assert (found.union_one, found.union, found.missed_one, found.missed) == (8, 14, 1, 4)
    assert found.gain == pytest.approx(3 * 12 / 20)
    assert found.predicted_gain == pytest.approx(3 * 8 / 14)
    reads = found.by_reads
    assert reads is not None
    assert reads.multiply_seconds == pytest.approx(0.004 / 8)
    assert reads.rest_seconds == pytest.approx(0.012 - 0.004 - 0.001)
    assert reads.step_seconds_one == pytest.approx(0.007 + max(0.003, 4 * 0.0005) + 4 * 0.0005)
    assert reads.step_seconds == pytest.approx(0.007 + max(4 * 0.002, 8 * 0.0005) + 6 * 0.0005)
    assert reads.predicted_gain == pytest.approx(3 * 12 / 18)
    assert reads.of_predicted == pytest.approx(18 / 20)


def test_a_cache_that_misses_more_of_a_larger_union_is_told_apart_from_one_that_does_not() -> None:
    """The same unions: the one prediction sees no difference, the other does."""
    held = [replace(r, traffic=Counters(layers={0: (8, 0), 1: (6, 0)})) for r in TOGETHER]
    missing, none = (
        conversations(3, [ALONE], [together], read_one=0.003, read=0.002)
        for together in (TOGETHER, held)
    )
    assert missing.predicted_gain == none.predicted_gain
    assert missing.by_reads is not None
    assert none.by_reads is not None
    assert none.by_reads.predicted_gain > missing.by_reads.predicted_gain


def test_without_experts_everything_is_shared() -> None:
    dense, together = run(3, 0.012, 1, {}), run(3, 0.012, 2, {})
    found = conversations(2, [dense], [together], read_one=0.0, read=0.0)
    assert found.predicted_gain == found.gain == 2
    assert found.by_reads is not None
    assert found.by_reads.predicted_gain == 2


def test_one_step_of_all_is_too_few() -> None:
    with pytest.raises(ConfigError, match="--new-tokens"):
        conversations(3, [ALONE], [TOGETHER[:1]], read_one=0.0, read=0.0)

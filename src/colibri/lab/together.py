"""What several conversations at once gain: measured, and as the unions of their experts predict.

A step reads what is missing of its union, and multiplies each expert of it once for all its rows.
Were reading and multiplying all its time, and the cache as good for n as for one, a step of n would
take union(n) / union(1) times one of a single conversation: the gain n * union(1) / union(n).

A cache that holds one's working set need not hold that of n. So the second prediction takes unions
and what was missing of them as they were, and from one conversation alone what each costs:

    step(n) = rest + sum over layers of max(missing(n) * read, union(n) * multiply)

since a layer's experts are read while others are multiplied. rest, which is neither, is shared by
all rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from colibri.errors import ConfigError
from colibri.lab import results
from colibri.lab.clock import StepRecord, by_phase

Run = Sequence[StepRecord]  # steps of decode, one after the other


@dataclass(frozen=True)
class Costs:
    """Seconds, of one conversation's steps: a step's rest, and an expert multiplied."""

    rest: float
    multiply: float

    @classmethod
    def of(cls, runs: Sequence[Run]) -> Self:
        phases = by_phase([record for run in runs for record in run])
        steps = sum(len(run) for run in runs)
        multiplied = phases["expert_matmul"] / steps
        asked, _ = _experts(runs)
        rest = _seconds(runs) - multiplied - phases["expert_wait"] / steps
        return cls(rest, multiplied / asked if asked else 0.0)

    def step(self, runs: Sequence[Run], read: float) -> float:
        """A step of these, on the mean. read: seconds for an expert that is missing."""
        layers = [
            max(misses * read, (hits + misses) * self.multiply)
            for run in runs
            for record in run
            for hits, misses in record.traffic.layers.values()
        ]
        return self.rest + sum(layers) / sum(len(run) for run in runs)


def conversations(
    count: int, alone: Sequence[Run], together: Sequence[Run], read_one: float, read: float
) -> results.Conversations:
    """Of runs made in turn. read_one, read: seconds for a missing expert, in bursts as one
    conversation and as all of them ask for what is missing. Raises ConfigError where fewer than two
    steps held all of them."""
    if any(len(run) < 2 for run in together):
        raise ConfigError("--conversations: too few --new-tokens to decode all of them together")
    one, all_of_them = _seconds(alone), _seconds(together)
    union_one, missed_one = _experts(alone)
    union, missed = _experts(together)
    by_unions = count * union_one / union if union else float(count)
    gain = count * one / all_of_them
    return results.Conversations(
        count=count,
        step_seconds_one=one,
        step_seconds=all_of_them,
        tps=count / all_of_them,
        union_one=union_one,
        union=union,
        missed_one=missed_one,
        missed=missed,
        gain=gain,
        predicted_gain=by_unions,
        of_predicted=gain / by_unions,
        by_reads=_by_reads(gain, count, Costs.of(alone), (alone, read_one), (together, read)),
    )


def _by_reads(
    gain: float,
    count: int,
    costs: Costs,
    one: tuple[Sequence[Run], float],
    n: tuple[Sequence[Run], float],
) -> results.ByReads:
    step_one, step = costs.step(*one), costs.step(*n)
    predicted = count * step_one / step
    return results.ByReads(
        read_seconds_one=one[1],
        read_seconds=n[1],
        multiply_seconds=costs.multiply,
        rest_seconds=costs.rest,
        step_seconds_one=step_one,
        step_seconds=step,
        predicted_gain=predicted,
        of_predicted=gain / predicted,
    )


def full_steps(records: Sequence[StepRecord], count: int) -> list[StepRecord]:
    """Those in which every conversation had its token."""
    return [record for record in records if not record.prefill and record.rows == count]


def _seconds(runs: Sequence[Run]) -> float:
    """From a step's end to the next one's, on the mean."""
    return float(np.mean([gap for run in runs for gap in np.diff([r.end for r in run])]))


def _experts(runs: Sequence[Run]) -> tuple[float, float]:
    """Distinct experts of a step over all layers: asked for, and not there."""
    layers = [record.traffic.layers.values() for run in runs for record in run]
    asked = [sum(hits + misses for hits, misses in counts) for counts in layers]
    missed = [sum(misses for _, misses in counts) for counts in layers]
    return float(np.mean(asked)), float(np.mean(missed))

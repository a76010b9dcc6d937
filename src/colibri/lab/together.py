"""What several conversations at once gain: measured, and as the unions of their experts predict.

A step reads, and multiplies, each expert once for all its rows. Were that all its time, a step of n
conversations would take union(n) / union(1) times one of a single conversation, and n of them would
gain n * union(1) / union(n).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from colibri.errors import ConfigError
from colibri.lab import results
from colibri.lab.clock import StepRecord

Run = Sequence[StepRecord]  # steps of decode, one after the other


def conversations(
    count: int, alone: Sequence[Run], together: Sequence[Run]
) -> results.Conversations:
    """Of runs made in turn. Raises ConfigError where fewer than two steps held all of them."""
    if any(len(run) < 2 for run in together):
        raise ConfigError("--conversations: too few --new-tokens to decode all of them together")
    one, all_of_them = _seconds(alone), _seconds(together)
    union_one, missed_one = _experts(alone)
    union, missed = _experts(together)
    predicted = count * union_one / union if union else float(count)
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

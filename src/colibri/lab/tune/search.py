"""The search: one setting after the other, then the proof.

A setting is kept for the next ones if it is faster than the best so far by more than noise. What
comes out is measured against the start in pairs of either order (start, found, found, start, ...),
since a machine that gets slower or faster meanwhile favours whoever is measured first or last. That
goes on until it is decided: a gain below its own noise is none.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from colibri.config import EngineConfig
from colibri.lab.tune.space import Knob
from colibri.lab.tune.trial import OutOfTime, Runner, Sample, TrialFailed

SLOWER_START = 1.2  # a first token may come so much later at most
_CONFIRMING = 4  # trials at least
_MOST_PAIRS = 6
# What is promised of a budget.
_WITHIN = 1.02
_SLACK_BYTES = 64_000_000

Say = Callable[[str], None]
Outcome = Literal["confirmed", "no gain", "not confirmed", "no time", "nothing tried"]


@dataclass(frozen=True)
class Wishes:
    min_gain: float = 0.03
    seconds: float = 900.0


@dataclass(frozen=True)
class Tried:
    settings: dict[str, Any]  # that differ from the start
    speed: float | None  # None: it could not be used
    note: str = ""


@dataclass
class Found:
    outcome: Outcome
    settings: dict[str, Any]
    base_speed: float
    speed: float
    noise: float
    gains: list[float] = field(default_factory=list)  # of the proof, one a pair
    tried: list[Tried] = field(default_factory=list)

    @property
    def gain(self) -> float:
        return min(self.gains, default=0.0)

    @classmethod
    def nothing(cls) -> Found:
        """There was no time for more than a part of the start."""
        return cls("nothing tried", {}, 0.0, 0.0, 0.0)


class Search:
    """base: the configuration to start from, its budget fixed. Raises TrialFailed if the start
    itself cannot be run."""

    def __init__(
        self,
        base: EngineConfig,
        runner: Runner,
        wishes: Wishes,
        say: Say = lambda text: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._base = base
        self._runner = runner
        self._wishes = wishes
        self._say = say
        self._clock = clock
        self._end = clock() + wishes.seconds
        self._longest = 0.0
        self._tried: list[Tried] = []

    def start(self) -> Sample:
        """The start, twice: what differs is noise."""
        first, second = self._run({}), self._run({})
        self._first = max(first, second, key=lambda sample: sample.speed)
        between = abs(first.speed - second.speed) / self._first.speed
        self._noise = max(between, min(first.spread, second.spread))
        self._say(f"as it is: {self._first.speed:.2f} tok/s, noise {100 * self._noise:.1f} %")
        return self._first

    def run(self, knobs: Sequence[Knob]) -> Found:
        """After start()."""
        best, best_settings, in_time = self._first, dict[str, Any](), True
        for knob in knobs:
            current = best_settings.get(knob.field, getattr(self._base, knob.field))
            for value in knob.values:
                if value == current:
                    continue
                if not self._time_for(1 + _CONFIRMING):
                    in_time = False
                    break
                settings = {**best_settings, knob.field: value}
                sample = self._try(settings)
                if sample is not None and self._better(sample, best):
                    best, best_settings = sample, settings
        if not in_time:
            self._say("the time is over: not everything was tried")
        return self._proven(best_settings, best)

    def _try(self, settings: dict[str, Any]) -> Sample | None:
        try:
            sample = self._run(settings)
        except TrialFailed as error:
            self._note(settings, None, str(error))
            return None
        if sample.digest != self._first.digest:
            self._note(settings, None, "disqualified: its answers are not the same, to the bit")
            return None
        if sample.peak_bytes > self._first.budget_bytes * _WITHIN + _SLACK_BYTES:
            self._note(settings, None, "disqualified: it takes more memory than the budget")
            return None
        self._note(settings, sample.speed)
        return sample

    def _better(self, sample: Sample, best: Sample) -> bool:
        enough = 1 + max(self._wishes.min_gain, self._noise)
        return sample.speed > enough * best.speed and self._starts(sample, self._first)

    def _starts(self, sample: Sample, base: Sample) -> bool:
        return sample.ttft_seconds <= SLOWER_START * base.ttft_seconds

    def _proven(self, settings: dict[str, Any], best: Sample) -> Found:
        found = Found(
            "no gain", settings, self._first.speed, best.speed, self._noise, tried=self._tried
        )
        if not settings:
            return found
        if not self._time_for(_CONFIRMING):
            return replace(found, outcome="no time")
        self._say(f"proving {shown(settings)} against the start, in pairs of either order")
        try:
            decided = self._decided(found, settings)
        except TrialFailed as error:
            self._note(settings, None, str(error))
            over = isinstance(error, OutOfTime)
            return replace(found, outcome="no time" if over else "not confirmed")
        return replace(found, outcome="confirmed" if decided else "not confirmed")

    def _decided(self, found: Found, settings: dict[str, Any]) -> bool:
        """Whether the find is faster in every pair by more than noise: that of the start, or from
        the third pair on that of the pairs themselves, in which drift counts for nothing."""
        starts, finds = list[Sample](), list[Sample]()
        while len(starts) < _MOST_PAIRS and (len(starts) < 2 or self._time_for(2)):
            order = ({}, settings) if len(starts) % 2 == 0 else (settings, {})
            pair = [self._run(one) for one in order]
            start, find = pair if order[1] else reversed(pair)
            starts.append(start)
            finds.append(find)
            found.gains.append(find.speed / start.speed - 1)
            found.base_speed = min(sample.speed for sample in starts)
            found.speed = min(sample.speed for sample in finds)
            same = start.digest == find.digest == self._first.digest
            if (
                not same
                or not self._starts(find, start)
                or max(found.gains) < self._wishes.min_gain
            ):
                return False
            found.noise = self._noise_of(starts, found.gains)
            if len(starts) > 1 and found.gain >= max(self._wishes.min_gain, found.noise):
                return True
        return False

    def _noise_of(self, starts: Sequence[Sample], gains: Sequence[float]) -> float:
        if len(gains) > 2:
            return max(gains) - min(gains)
        speeds = [sample.speed for sample in starts]
        return max(1 - min(speeds) / max(speeds), self._noise)

    def _run(self, settings: dict[str, Any]) -> Sample:
        begin = self._clock()
        try:
            return self._runner.run(replace(self._base, **settings), self._end - begin)
        finally:
            self._longest = max(self._longest, self._clock() - begin)

    def _time_for(self, trials: int) -> bool:
        return self._clock() + trials * self._longest <= self._end

    def _note(self, settings: dict[str, Any], speed: float | None, note: str = "") -> None:
        self._tried.append(Tried(settings, speed, note))
        text = note if speed is None else f"{speed:.2f} tok/s"
        self._say(f"{shown(settings)}: {text}")


def shown(settings: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in settings.items()) or "as it is"

"""Whether looking ahead pays while decoding: measured on the steps themselves, now and then again.

1. Watch: guesses are made and compared, nothing is read. Go on only if experts were missing and
   enough of them guessed, by guesses of which enough are right.
2. Compare: windows of steps without and with reads ahead, in turn. Their medians decide; a step or
   two after each change do not count, for the cache still holds what the other way left.
3. Hold what was found, then begin again: at 2 after a yes, at 1 after a no. Each no holds for
   twice as long as the one before.

A step of another number of rows takes another time: it begins the comparison anew.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Literal

from colibri.experts.base import Guesses

WATCH_STEPS = 32
LEAST_MISSING = 32  # in these, or there is nothing to gain
LEAST_RECALL, LEAST_PRECISION = 0.25, 0.4
WINDOWS, WINDOW_STEPS, UNCOUNTED_STEPS = 8, 10, 2
LEAST_GAIN = 0.02
HOLD_STEPS, LONGEST_HOLD_STEPS = 512, 8192

Way = Literal["idle", "watch", "read"]


@dataclass
class Trial:
    """`way` says how to take the next step, add() hears what came of it."""

    way: Way = "watch"
    pays: bool = False
    _phase: Literal["watch", "compare", "hold"] = "watch"
    _steps: int = 0  # in this phase
    _rows: int = 0  # of the steps compared
    _watched: Guesses = field(default_factory=Guesses)
    _seconds: dict[Way, list[float]] = field(default_factory=dict)
    _hold_steps: int = HOLD_STEPS

    def add(self, rows: int, seconds: float, guesses: Guesses) -> None:
        """A step of so many rows has ended, with these guesses in it."""
        if self._phase == "watch":
            self._watch(guesses)
        elif self._phase == "compare":
            self._compare(rows, seconds)
        else:
            self._hold()

    def _watch(self, guesses: Guesses) -> None:
        self._watched += guesses
        self._steps += 1
        if self._steps == WATCH_STEPS:
            if _promising(self._watched):
                self._begin_to_compare()
            else:
                self._begin_to_hold(False)

    def _compare(self, rows: int, seconds: float) -> None:
        if rows != self._rows:
            self._rows = rows
            self._begin_to_compare()
            return
        if self._steps % WINDOW_STEPS >= UNCOUNTED_STEPS:
            self._seconds[self.way].append(seconds)
        self._steps += 1
        if self._steps == WINDOWS * WINDOW_STEPS:
            self._begin_to_hold(_faster(self._seconds["read"], self._seconds["idle"]))
        else:
            self.way = "read" if self._steps // WINDOW_STEPS % 2 else "idle"

    def _hold(self) -> None:
        self._steps += 1
        if self._steps < self._hold_steps:
            return
        if self.pays:
            self._begin_to_compare()
        else:
            self._hold_steps = min(2 * self._hold_steps, LONGEST_HOLD_STEPS)
            self._begin_to_watch()

    def _begin_to_watch(self) -> None:
        self._phase, self.way, self._steps = "watch", "watch", 0
        self._watched = Guesses()

    def _begin_to_compare(self) -> None:
        self._phase, self.way, self._steps = "compare", "idle", 0
        self._seconds = {"idle": [], "read": []}

    def _begin_to_hold(self, pays: bool) -> None:
        if pays:
            self._hold_steps = HOLD_STEPS
        self._phase, self.pays, self._steps = "hold", pays, 0
        self.way = "read" if pays else "idle"


def _promising(guesses: Guesses) -> bool:
    return (
        guesses.missing >= LEAST_MISSING
        and guesses.recall >= LEAST_RECALL
        and guesses.precision >= LEAST_PRECISION
    )


def _faster(these: Sequence[float], those: Sequence[float]) -> bool:
    return median(these) < (1 - LEAST_GAIN) * median(those)

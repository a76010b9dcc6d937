"""Where the time of the last turns went: a turn is a stretch of steps from one that begins to read
a prompt to the next such one, so in a conversation a question and its answer. Nor does it outlast
a second in which nothing is run: closed questions and an answer whose prompt is known follow one
another without a step of decode between them.

Steps and their time are counted all, some are listened to. The wait for the disk is measured in
every step; the rest of a turn's time is shared out as in those of its steps that were listened to.
So phases add up to the wall time.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from colibri.lab.clock import PHASES, StepRecord, by_layer
from colibri.lab.counters import Counters

if TYPE_CHECKING:
    from colibri.experts.streamed import StreamedExperts

KEPT = 32  # turns
REST_SECONDS = 1.0  # without a step: what follows is another turn
TURN_PHASES = (*PHASES, "between")  # between: from the end of a step to the next one's begin
Phases = dict[str, float]  # seconds


@dataclass
class Part:
    """A turn's steps of one kind: those that read prompts too, or those that only decode."""

    steps: int = 0
    rows: int = 0
    seconds: float = 0.0
    listened: int = 0
    layers: dict[int, Phases] = field(default_factory=dict)  # of those that were listened to
    traffic: Counters = field(default_factory=Counters)  # of stretches of such steps

    def listen(self, record: StepRecord) -> None:
        self.listened += 1
        for layer, phases in by_layer(record).items():
            known = self.layers.get(layer, {})
            self.layers[layer] = {n: known.get(n, 0.0) + phases.get(n, 0.0) for n in PHASES}

    def by_layer(self, traffic: Counters) -> dict[int, Phases]:
        """Seconds a phase of each layer, which add up to those of the steps; -1: outside."""
        wait = min(traffic.wait_seconds, self.seconds)
        layers = list(self.layers.items())  # at once: the engine's thread may add one
        heard = {n: dict(phases) for n, phases in layers} or {-1: {"python": 1.0}}
        waits = {n: phases.pop("expert_wait", 0.0) for n, phases in heard.items()}
        waited = sum(waits.values())
        worked = sum(sum(phases.values()) for phases in heard.values())
        scale = (self.seconds - wait) / worked if worked > 0 else 0.0
        found = {
            n: {name: seconds * scale for name, seconds in phases.items()}
            for n, phases in heard.items()
        }
        weights = waits
        if waited <= 0:
            weights = {n: float(misses) for n, (_, misses) in traffic.layers.items()}
        whole = sum(weights.values())
        for n, weight in (weights if whole > 0 else {-1: 1.0}).items():
            phases = found.setdefault(n, {})
            phases["expert_wait"] = wait * weight / (whole or 1.0)
        return found


@dataclass
class Turn:
    number: int
    unix: float
    begin: float
    end: float
    parts: dict[bool, Part] = field(default_factory=lambda: {True: Part(), False: Part()})
    open: Counters | None = None  # as they were when the stretch of like steps began
    told: dict[str, Any] | None = None  # of a turn that is over: it stays as it is


class TurnLog:
    """For the thread that runs the model; told() is for any."""

    def __init__(self) -> None:
        self._turns: deque[Turn] = deque(maxlen=KEPT)
        self._experts: StreamedExperts | None = None
        self._number = 0
        self._prefill = False
        self._rows = 0
        self._begun = 0.0

    def watch(self, experts: StreamedExperts) -> None:
        self._experts = experts

    def begin(self, prefill: bool, rows: int) -> tuple[int, bool]:
        """The turn's number, and whether this step is the first of its kind in it."""
        now = time.perf_counter()
        if not self._turns or (prefill and not self._prefill) or self._rested(now):
            self._close()
            self._number += 1
            turn = Turn(self._number, time.time(), now, now)
            turn.open = self._counters()
            self._turns.append(turn)
        elif prefill != self._prefill:
            self._close()
            self._turns[-1].open = self._counters()
        self._prefill, self._rows, self._begun = prefill, rows, now
        return self._number, self._turns[-1].parts[prefill].steps == 0

    def end(self, record: StepRecord | None) -> None:
        """record: of the step, if it was listened to."""
        turn, now = self._turns[-1], time.perf_counter()
        part = turn.parts[self._prefill]
        part.steps += 1
        part.rows += self._rows
        part.seconds += now - self._begun
        turn.end = now
        if record is not None:
            part.listen(record)

    def _rested(self, now: float) -> bool:
        return now - self._turns[-1].end > REST_SECONDS

    def told(self) -> list[dict[str, Any]]:
        """Oldest first."""
        turns = list(self._turns)
        for turn in turns[:-1]:
            if turn.told is None and turn.open is None:
                turn.told = self._told(turn)
        return [turn.told or self._told(turn) for turn in turns]

    def layers(self, number: int) -> list[dict[str, Any]] | None:
        """A turn's time, hits and misses by layer; None: it is not kept (any more)."""
        turn = next((t for t in list(self._turns) if t.number == number), None)
        if turn is None:
            return None
        told: dict[int, dict[str, Any]] = {}
        for prefill, part in turn.parts.items():
            traffic = self._traffic(turn, prefill)
            for n, phases in part.by_layer(traffic).items() if part.steps else ():
                hits, misses = traffic.layers.get(n, (0, 0))
                told.setdefault(n, {"layer": n})[_NAME[prefill]] = {
                    "phases": phases,
                    "hits": hits,
                    "misses": misses,
                }
        return [told[n] for n in sorted(told)]

    def _told(self, turn: Turn) -> dict[str, Any]:
        wall = turn.end - turn.begin
        told: dict[str, Any] = {"turn": turn.number, "unix": turn.unix, "seconds": wall}
        total = dict.fromkeys(TURN_PHASES, 0.0)
        stepped = 0.0
        for prefill, part in turn.parts.items():
            traffic = self._traffic(turn, prefill)
            phases = dict.fromkeys(PHASES, 0.0)
            for by_phase in part.by_layer(traffic).values() if part.steps else ():
                for name, seconds in by_phase.items():
                    phases[name] += seconds
            for name, seconds in phases.items():
                total[name] += seconds
            stepped += part.seconds
            told[_NAME[prefill]] = {
                "steps": part.steps,
                "listened": part.listened,
                "rows": part.rows,
                "seconds": part.seconds,
                "phases": phases,
                "hits": sum(hits for hits, _ in traffic.layers.values()),
                "misses": sum(misses for _, misses in traffic.layers.values()),
                "bytes_read": traffic.bytes_read,
                "read_seconds": traffic.read_seconds,
                "wait_seconds": traffic.wait_seconds,
            }
        total["between"] = max(wall - stepped, 0.0)
        return told | {"phases": total}

    def _traffic(self, turn: Turn, prefill: bool) -> Counters:
        """Also of a stretch that goes on."""
        found, begun = turn.parts[prefill].traffic, turn.open
        if begun is None or prefill != self._prefill:
            return found
        return found.plus(self._counters().since(begun))

    def _close(self) -> None:
        """A stretch of like steps is over."""
        if self._turns and (turn := self._turns[-1]).open is not None:
            part = turn.parts[self._prefill]
            part.traffic = part.traffic.plus(self._counters().since(turn.open))
            turn.open = None

    def _counters(self) -> Counters:
        return Counters() if self._experts is None else Counters.of(self._experts)


_NAME = {True: "prefill", False: "decode"}

"""GET /v1/colibri/routing: which experts fire, where they lie and how hot they are, as events.

The first event is `experts`, all there is to know at that moment; then `steps` a few times a
second, what happened since: the experts that each step selected, and what moved between the tiers.
Bits and bytes of all experts stand layer after layer, in base64 (docs/watching.md).
"""

from __future__ import annotations

import asyncio
import time
from base64 import b64encode
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from starlette.requests import Request
from starlette.responses import Response

from colibri.server.http import stream
from colibri.server.http.stream import EventStream
from colibri.server.service import Service
from colibri.server.watch.firing import ExpertMap, Fired

if TYPE_CHECKING:
    from colibri.llm import LLM

EVERY_SECONDS = 0.2  # between two events
HEAT_SECONDS = 2.0  # between two with heat and last use, which take longer to gather
MOST_STEPS = 256  # in an event; of more the last ones
MOST_BYTES = 64_000  # of their bits
HEAT_STEPS = 12  # of the byte: heat doubles with so many


async def routing(request: Request, service: Service) -> Response:
    """Until the client leaves; one that comes again with Last-Event-ID, or that id as ?after=,
    misses no step that is still kept."""
    view = View(service)
    known = request.query_params.get("after") or request.headers.get("last-event-id", "")
    number = view.resumed(known)

    async def frames() -> AsyncIterator[bytes]:
        with service.firings.watched():
            yield stream.event("experts", view.everything(number), view.event_id)
            while service.state == "ready":
                news = view.news()
                if news:
                    yield stream.event("steps", news, view.event_id)
                elif view.silent:
                    yield stream.comment({"state": "idle"})
                await asyncio.sleep(EVERY_SECONDS)
            yield stream.event("end", {"reason": "the server is stopping"})

    return EventStream(frames, {})


class View:
    """What one watcher was told, and what is new to it."""

    def __init__(self, service: Service) -> None:
        self._llm: LLM = service.llm
        self._firings = service.firings
        self._run = f"{service.started:x}"
        self._map = ExpertMap(dict(self._llm.plan.experts_per_layer))
        self._number = self._firings.last
        self._most = max(1, min(MOST_STEPS, MOST_BYTES * 8 // max(self._map.size, 1)))
        self._told: dict[str, str] = {}
        self._heat_at = self._sent_at = time.monotonic()
        self._heat_of = -1  # the step after which heat was told last

    @property
    def event_id(self) -> str:
        return f"{self._run}-{self._number}"

    @property
    def silent(self) -> bool:
        """Long enough for a sign of life."""
        if time.monotonic() - self._sent_at < 10:
            return False
        self._sent_at = time.monotonic()
        return True

    def resumed(self, event_id: str) -> int | None:
        """The last step that a client of this very server knows; None: it is new."""
        run, _, number = event_id.partition("-")
        if run != self._run or not number.isdecimal() or len(number) > 18:
            return None
        return min(int(number), self._number)

    def everything(self, known: int | None) -> dict[str, Any]:
        plan, experts = self._llm.plan, self._llm.experts
        if known is not None:
            self._number = known
        return {
            "run": self._run,
            "model": self._llm.load_line,
            "experts_per_token": plan.experts_per_token,
            "heat_steps": HEAT_STEPS,
            "layers": [
                {
                    "layer": layer,
                    "experts": plan.experts_per_layer[layer],
                    "slots": plan.slots[layer],
                    "slot_bytes": plan.slot_bytes[layer],
                }
                for layer in self._map.layers
            ],
            **self._tiers(),
            **self._heats(),
            **self._steps(),
            "evictions": experts.stats().evictions,
        }

    def news(self) -> dict[str, Any]:
        """Nothing: {}."""
        found = self._steps() if self._firings.last > self._number else {}
        found |= self._tiers()
        now = time.monotonic()
        if now - self._heat_at >= HEAT_SECONDS and self._firings.last != self._heat_of:
            self._heat_at = now
            found |= self._heats()
        if found:
            self._sent_at = now
            found["evictions"] = self._llm.experts.stats().evictions
        return found

    def _steps(self) -> dict[str, Any]:
        steps, skipped, self._number = self._firings.since(self._number, self._most)
        bits = self._map.fired(steps)
        told = [_step(step, fired) for step, fired in zip(steps, bits, strict=True)]
        return {"step": self._number, "steps": told, "skipped": skipped}

    def _tiers(self) -> dict[str, str]:
        """Those that are not as they were told last."""
        experts = self._llm.experts
        now = {
            "resident": _base64(self._map.bits(experts.at_hand)),
            "pinned": _base64(self._map.chosen(experts.held)),
        }
        new = {name: bits for name, bits in now.items() if self._told.get(name) != bits}
        self._told |= new
        return new

    def _heats(self) -> dict[str, str]:
        self._heat_of = self._firings.last
        counts, recency = self._llm.usage.peek()
        ago = recency.ago()
        heat = [counts.heat[n] for n in self._map.layers]
        rows = [ago[n] for n in self._map.layers]
        return {
            "heat": _base64(heat_bytes(np.concatenate(heat)) if heat else b""),
            "ago": _base64(np.concatenate(rows).astype("<i4").tobytes() if rows else b""),
        }


def heat_bytes(heat: NDArray[np.float64]) -> bytes:
    """A byte an expert: round(HEAT_STEPS * log2(1 + heat)), at most 255."""
    scaled = np.rint(HEAT_STEPS * np.log2(1 + heat))
    found: bytes = np.minimum(scaled, 255).astype(np.uint8).tobytes()
    return found


def _step(step: Fired, fired: bytes) -> dict[str, Any]:
    return {
        "step": step.number,
        "turn": step.turn,
        "prefill": step.prefill,
        "rows": step.rows,
        "seconds": step.seconds,
        "fired": _base64(fired),
    }


def _base64(data: bytes) -> str:
    return b64encode(data).decode("ascii")

"""GET /v1/colibri/...: the plan, the experts, where time goes, and what happens now."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import Response

from colibri.server.http import stream
from colibri.server.http.errors import ApiError
from colibri.server.http.places import without_places
from colibri.server.http.reply import Json
from colibri.server.http.stream import EventStream
from colibri.server.service import Service
from colibri.server.watch.snapshot import counters, snapshot

EVERY_SECONDS = 1.0  # between two events


async def plan(_request: Request, service: Service) -> Response:
    plan = service.llm.plan
    return Json(
        {
            "model": service.llm.load_line,
            "budget_bytes": plan.budget_bytes,
            "budget_reason": plan.budget_reason,
            "peak_bytes": plan.peak_bytes,
            "items": [
                {"name": item.name, "bytes": item.nbytes, "reason": item.reason}
                for item in plan.items()
            ],
            "context": plan.context,
            "prefill_chunk": plan.prefill_chunk,
            "trunk_bits": plan.trunk_bits,
            "embed_bits": plan.embed_bits,
            "experts_per_token": plan.experts_per_token,
            "policy": plan.policy,
            "layers": [
                {
                    "layer": layer,
                    "experts": plan.experts_per_layer[layer],
                    "slots": slots,
                    "slot_bytes": plan.slot_bytes[layer],
                }
                for layer, slots in sorted(plan.slots.items())
            ],
            "notes": [without_places(note, service.places()) for note in plan.notes],
        }
    )


async def experts(request: Request, service: Service) -> Response:
    """Which experts are in memory, layer by layer: bit i % 8 of byte i // 8 is expert i's; with
    ?heat=1 how hot each is, and how many tokens ago it was selected last (-1: not since the model
    was loaded)."""
    experts, plan = service.llm.experts, service.llm.plan
    counts = experts.layer_counts()
    heat = await service.work(lambda: _heat(service)) if "heat" in request.query_params else {}
    layers = []
    for layer, (hits, misses) in sorted(counts.items()):
        resident = experts.resident(layer)
        layers.append(
            {
                "layer": layer,
                "experts": plan.experts_per_layer[layer],
                "slots": plan.slots[layer],
                "resident": _bits(resident, plan.experts_per_layer[layer]),
                "resident_count": len(resident),
                "pinned": sorted(experts.held(layer)),
                "hits": hits,
                "misses": misses,
                **heat.get(layer, {}),
            }
        )
    return Json({"layers": layers})


def _heat(service: Service) -> dict[int, dict[str, Any]]:
    counts, recency = service.llm.usage.peek()
    return {
        layer: {"heat": np.round(counts.heat[layer], 2).tolist(), "ago": ago.tolist()}
        for layer, ago in recency.ago().items()
    }


async def profile(request: Request, service: Service) -> Response:
    """Where the time of recent steps and turns went, phase by phase; ?turn=N: that turn's, layer by
    layer."""
    turn = request.query_params.get("turn")
    if turn is None:
        return Json(await service.work(service.clock.summary))
    if not (turn.isascii() and turn.isdecimal() and len(turn) < 18):
        raise ApiError(400, "turn: give a turn's number", param="turn")
    layers = await service.work(lambda: service.clock.turns.layers(int(turn)))
    if layers is None:
        raise ApiError(404, f"turn {turn} is not kept: /v1/colibri/profile names those that are")
    return Json({"turn": int(turn), "layers": layers})


async def events(_request: Request, service: Service) -> Response:
    """What the engine does, once a second, until the client leaves."""
    llm = service.llm

    async def frames() -> AsyncIterator[bytes]:
        before, then = counters(llm), time.monotonic()
        while service.state == "ready":
            yield stream.event("status", snapshot(llm) | _since(before, counters(llm), then))
            before, then = counters(llm), time.monotonic()
            await asyncio.sleep(EVERY_SECONDS)
        yield stream.event("end", {"reason": "the server is stopping"})

    return EventStream(frames, {})


def _since(before: dict[str, Any], now: dict[str, Any], then: float) -> dict[str, Any]:
    seconds = max(time.monotonic() - then, 1e-9)
    grown = {name: now[name] - before[name] for name in now if name != "rss_bytes"}
    return {
        "total": now,
        "prefill_tokens_per_second": grown["prefill_tokens"] / seconds,
        "decode_tokens_per_second": grown["decode_tokens"] / seconds,
        "bytes_read_per_second": grown["bytes_read"] / seconds,
        "hits": grown["hits"],
        "misses": grown["misses"],
    }


def _bits(resident: set[int], experts: int) -> str:
    bits = sum(1 << expert for expert in resident)
    return bits.to_bytes((experts + 7) // 8, "little").hex()

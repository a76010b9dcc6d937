"""GET /v1/colibri/model: the model, this machine, the settings that matter for speed, usage, and
the plan held against what happened. POST /v1/colibri/rates measures what the machine can do."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response

from colibri import __version__
from colibri.container.files import as_unicode
from colibri.container.hubcache import model_name
from colibri.experts.usage import facts
from colibri.experts.usage.pins import enough
from colibri.hardware import probe
from colibri.hardware.storage import storage_of
from colibri.kernels import cpu
from colibri.planner.forecast import Rates
from colibri.planner.outcome import Row, Run, outcome
from colibri.server.http.errors import ApiError
from colibri.server.http.reply import Json
from colibri.server.service import Service

if TYPE_CHECKING:
    from colibri.llm import LLM

PARTS = (0.10, 0.25, 0.50)  # of the experts
# Fields of EngineConfig that say how experts are kept and read.
_SETTINGS = (
    "ram",
    "context",
    "policy",
    "cache_scope",
    "cache_bits",
    "pin",
    "lookahead",
    "readers",
    "direct",
    "mirror",
    "prefix_cache",
    "router",
    "expert_top_p",
    "trunk_bits",
    "embed_bits",
    "activations",
    "max_queue",
)


async def model(_request: Request, service: Service) -> Response:
    return Json(await service.work(lambda: overview(service)))


async def measure(_request: Request, service: Service) -> Response:
    """Takes about a second of the whole machine, so it is refused while answers are made."""
    status = service.llm.status()
    if status.running or status.waiting or service.measuring or service.building:
        raise ApiError(
            409,
            "the machine is measured only while no answer or atlas is being made: ask again when "
            "it is idle",
            code="busy",
        )
    service.measuring = True
    try:
        service.rates = await asyncio.to_thread(_measured, service.llm)
    finally:
        service.measuring = False
    return Json(_rates(service.rates))


def _measured(llm: LLM) -> Rates:
    from colibri.lab.rates import rates_beside

    return rates_beside(llm)


def overview(service: Service) -> dict[str, Any]:
    llm = service.llm
    stats, config = llm.stats(), llm.config
    rows = _outcome(service, llm)
    return {
        "id": service.model_id,
        "version": __version__,
        "load_line": llm.load_line,
        "path": model_name(llm.config.model, llm.container.path),
        "started_unix": service.started,
        "machine": _machine(llm),
        "settings": {name: getattr(config, name) for name in _SETTINGS},
        "usage": _usage(llm),
        "pins": _pins(llm),
        "memory": {
            "budget_bytes": llm.plan.budget_bytes,
            "planned_bytes": llm.plan.peak_bytes,
            "loaded_rss_bytes": stats.loaded_rss_bytes,
            "rss_bytes": stats.rss_bytes,
            "peak_rss_bytes": stats.peak_rss_bytes,
            "guard_shrinks": stats.guard_shrinks,
        },
        "drives": [
            dataclasses.asdict(drive)
            | {"directory": model_name(drive.directory, Path(drive.directory))}
            for drive in stats.drives
        ],
        "rates": None if service.rates is None else _rates(service.rates),
        "outcome": [
            dataclasses.asdict(row) | {"deviation": row.deviation, "worse": row.worse}
            for row in rows
        ],
    }


def _machine(llm: LLM) -> dict[str, Any]:
    found = dataclasses.asdict(probe.facts())
    storage = storage_of(llm.container.path)
    return found | {
        "cpu_path": cpu.active_path(),
        "threads": cpu.num_threads(),
        "readers": llm.experts.readers,
        "file_system": storage.file_system,
        "disk": storage.device,
        "rotational": storage.rotational,
    }


def _usage(llm: LLM) -> dict[str, Any]:
    counts, _ = llm.usage.peek()
    path = llm.usage.path
    return {
        "tokens": counts.tokens,
        "selections": counts.total_selections,
        "path": None if path is None else as_unicode(path.name),
        "half_life_tokens": llm.config.usage_half_life,
        "enough_to_pin": enough(counts),
        "hottest": [
            {"part": part, "share": facts.share_over_layers(counts.heat, part)} for part in PARTS
        ],
    }


def _pins(llm: LLM) -> dict[str, Any]:
    held = {n: len(llm.experts.held(n)) for n in llm.plan.slots}
    return {
        "experts": sum(held.values()),
        "bytes": sum(count * llm.plan.slot_bytes[n] for n, count in held.items()),
        "most_bytes": llm.plan.pin_bytes,
    }


def _outcome(service: Service, llm: LLM) -> list[Row]:
    """Of the decode steps of the turns that are kept."""
    stats, turns = llm.stats(), [turn["decode"] for turn in service.clock.turns.told()]
    resident = {n: len(llm.experts.resident(n)) for n in llm.plan.slots}
    run = Run(
        loaded_rss_bytes=stats.loaded_rss_bytes,
        peak_rss_bytes=stats.peak_rss_bytes,
        slots_bytes=sum(count * llm.plan.slot_bytes[n] for n, count in resident.items()),
        prompt_tokens=stats.prefill_tokens,
        new_tokens=sum(turn["rows"] for turn in turns),
        hits=sum(turn["hits"] for turn in turns),
        misses=sum(turn["misses"] for turn in turns),
        bytes_read=sum(turn["bytes_read"] for turn in turns),
        seconds=sum(turn["seconds"] for turn in turns),
    )
    return outcome(llm.plan, llm.forecast(service.rates or Rates()), run)


def _rates(rates: Rates) -> dict[str, Any]:
    return {"bytes_per_second": dataclasses.asdict(rates)}

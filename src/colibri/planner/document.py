"""The plan as JSON: docs/plan.md explains every key. Keys are only ever added within a version."""

import msgspec

from colibri.config.choices import EmbedBits, StoredBits
from colibri.container.jsonfile import encode_json
from colibri.planner.advice import Advice
from colibri.planner.budget import Machine
from colibri.planner.forecast import Bottleneck, Forecast, Rates
from colibri.planner.plan import Plan

VERSION = 1


class ModelEntry(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    family: str
    runs: bool  # false in versions that could plan it and not run it
    experts: str  # scheme or dtype that was planned with
    as_converted: bool  # false: as it is on disk
    files: int
    files_without_data: int  # headers only, cut short or missing


class Process(msgspec.Struct, frozen=True, kw_only=True):
    pid: int
    rss_bytes: int
    command: str


class MachineEntry(msgspec.Struct, frozen=True, kw_only=True):
    total_bytes: int
    available_bytes: int
    rss_bytes: int
    colibri_processes: list[Process]


class ItemEntry(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    bytes: int
    reason: str


class LayerEntry(msgspec.Struct, frozen=True, kw_only=True):
    layer: int
    trunk_bytes: int
    experts: int
    slots: int
    slot_bytes: int
    arena_bytes: int
    hit_rate: float | None  # None: no routed experts


class RatesEntry(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes a second."""

    memory: float | None
    disk: float | None
    compute: float | None


class ForecastEntry(msgspec.Struct, frozen=True, kw_only=True):
    hit_rate: float | None
    hits_from: str
    memory_bytes_per_token: int
    disk_bytes_per_token: int
    tokens_per_second: float | None
    most_tokens_per_second: float | None
    bottleneck: Bottleneck | None


class AdviceEntry(msgspec.Struct, frozen=True, kw_only=True):
    change: str
    tokens_per_second: float
    gain: float


class Document(msgspec.Struct, frozen=True, kw_only=True):
    version: int
    model: ModelEntry
    machine: MachineEntry
    fits: bool
    budget_bytes: int
    budget_reason: str
    peak_bytes: int
    least_bytes: int  # the smallest budget that works with these settings
    items: list[ItemEntry]
    pin_bytes: int  # of the experts' item, at most
    context: int
    prefill_chunk: int
    trunk_bits: StoredBits
    embed_bits: EmbedBits
    experts_per_token: int
    layers: list[LayerEntry]
    rates: RatesEntry
    forecast: ForecastEntry
    advice: list[AdviceEntry]
    notes: list[str]


def document(
    model: ModelEntry,
    machine: Machine,
    plan: Plan,
    least_bytes: int,
    rates: Rates,
    expected: Forecast,
    advice: list[Advice],
) -> Document:
    return Document(
        version=VERSION,
        model=model,
        machine=MachineEntry(
            total_bytes=machine.total_bytes,
            available_bytes=machine.available_bytes,
            rss_bytes=machine.rss_bytes,
            colibri_processes=[
                Process(pid=n.pid, rss_bytes=n.rss_bytes, command=n.command)
                for n in machine.neighbours
            ],
        ),
        fits=plan.fits,
        budget_bytes=plan.budget_bytes,
        budget_reason=plan.budget_reason,
        peak_bytes=plan.peak_bytes,
        least_bytes=least_bytes,
        items=[ItemEntry(name=i.name, bytes=i.nbytes, reason=i.reason) for i in plan.items()],
        pin_bytes=plan.pin_bytes,
        context=plan.context,
        prefill_chunk=plan.prefill_chunk,
        trunk_bits=plan.trunk_bits,
        embed_bits=plan.embed_bits,
        experts_per_token=plan.experts_per_token,
        layers=[_layer(n, plan, expected) for n in expected.layers],
        rates=RatesEntry(memory=rates.memory, disk=rates.disk, compute=rates.compute),
        forecast=ForecastEntry(
            hit_rate=expected.hit_rate,
            hits_from=expected.hits_from,
            memory_bytes_per_token=expected.memory_bytes_per_token,
            disk_bytes_per_token=expected.disk_bytes_per_token,
            tokens_per_second=expected.tokens_per_second,
            most_tokens_per_second=expected.most_tokens_per_second,
            bottleneck=expected.bottleneck,
        ),
        advice=[
            AdviceEntry(change=a.change, tokens_per_second=a.tokens_per_second, gain=a.gain)
            for a in advice
        ],
        notes=list(plan.notes),
    )


def encoded(document: Document) -> str:
    return msgspec.json.format(encode_json(document), indent=2).decode()


def _layer(n: int, plan: Plan, expected: Forecast) -> LayerEntry:
    slots, slot_bytes = plan.slots.get(n, 0), plan.slot_bytes.get(n, 0)
    return LayerEntry(
        layer=n,
        trunk_bytes=plan.layer_trunk_bytes.get(n, 0),
        experts=plan.experts_per_layer.get(n, 0),
        slots=slots,
        slot_bytes=slot_bytes,
        arena_bytes=slots * slot_bytes,
        hit_rate=expected.layers[n].hit_rate if slots else None,
    )

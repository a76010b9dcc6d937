"""The plan as people read it."""

import math
from collections.abc import Iterator

from colibri.hardware.neighbours import brief
from colibri.planner.budget import MB
from colibri.planner.document import Document, LayerEntry, RatesEntry
from colibri.words import are, count, three_digits

_ADVICE_SHOWN = 4


def report(d: Document) -> Iterator[str]:
    yield from _model(d)
    yield ""
    yield from _items(d)
    yield ""
    yield from _layers(d.layers)
    yield ""
    yield from _forecast(d)
    for note in d.notes:
        yield f"note: {note}"


def _model(d: Document) -> Iterator[str]:
    m = d.model
    yield f"model       {m.path} ({m.family})"
    if m.files_without_data:
        yield (
            f"files       headers only: {m.files_without_data} of {count(m.files, 'file')} "
            f"{are(m.files_without_data)} missing or without (all of) their data"
        )
    how = f"as converted to {m.experts} (--scheme source: as it is)"
    yield f"experts     {how if m.as_converted else m.experts + ', as they are on disk'}"
    yield f"budget      {d.budget_bytes / MB:,.0f} MB: {d.budget_reason}"
    for process in d.machine.colibri_processes:
        yield (
            f"beside      process {process.pid} runs colibri and holds "
            f"{process.rss_bytes / MB:,.0f} MB: {brief(process.command)}"
        )


def _items(d: Document) -> Iterator[str]:
    for item in d.items:
        yield f"{item.name:<12}{item.bytes / MB:>10,.1f} MB  {item.reason}"
    least = f"the least that works is {math.ceil(d.least_bytes / MB):,} MB"
    yield f"{'peak':<12}{d.peak_bytes / MB:>10,.1f} MB  {least}"


def _layers(layers: list[LayerEntry]) -> Iterator[str]:
    """Layers that are alike, together."""
    groups: dict[LayerEntry, list[int]] = {}
    for entry in layers:
        alike = LayerEntry(**{f: getattr(entry, f) for f in entry.__struct_fields__} | {"layer": 0})
        groups.setdefault(alike, []).append(entry.layer)
    for entry, numbers in groups.items():
        of = "each " if len(numbers) > 1 else ""
        text = f"layers {_ranges(numbers)}: {of}trunk {entry.trunk_bytes / MB:,.1f} MB"
        if entry.slots:
            text += (
                f", {entry.slots} of {entry.experts} experts x {entry.slot_bytes / MB:,.2f} MB "
                f"= {entry.arena_bytes / MB:,.1f} MB"
            )
        yield text


def _ranges(numbers: list[int]) -> str:
    """0-2, 4, 6-9"""
    runs: list[list[int]] = []
    for n in numbers:
        if runs and n == runs[-1][-1] + 1:
            runs[-1].append(n)
        else:
            runs.append([n])
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs)


def _forecast(d: Document) -> Iterator[str]:
    f = d.forecast
    hits = "-" if f.hit_rate is None else f"{f.hit_rate:.1%}"
    source = "if experts are drawn evenly" if f.hits_from == "even draws" else "by recorded usage"
    yield f"hit rate    {hits} {source}"
    yield (
        f"a token     {f.disk_bytes_per_token / MB:,.1f} MB from disk, "
        f"{f.memory_bytes_per_token / MB:,.1f} MB of memory multiplied"
    )
    yield f"rates       {_rates(d.rates)}"
    if f.tokens_per_second is None or f.most_tokens_per_second is None:
        yield f"speed       not known: {_missing(d)}"
        return
    yield (
        f"speed       about {three_digits(f.tokens_per_second)} tok/s, at most "
        f"{three_digits(f.most_tokens_per_second)}; bound by {_BOUND[f.bottleneck or 'memory']}"
    )
    for label, advice in zip(_labels(), d.advice[:_ADVICE_SHOWN], strict=False):
        speed = f"{three_digits(advice.tokens_per_second)} tok/s (+{three_digits(advice.gain)})"
        yield f"{label:<12}{advice.change}: {speed}"


_BOUND = {
    "disk": "the disk",
    "memory": "memory bandwidth",
    "compute": "arithmetic",
    "interpreter": "the Python interpreter, since the model is so small",
}


def _labels() -> Iterator[str]:
    yield "helps most"
    while True:
        yield "then"


def _rates(rates: RatesEntry) -> str:
    named_rates = (
        ("memory", rates.memory, ""),
        ("disk", rates.disk, " (one expert at a time)"),
        ("arithmetic from cache", rates.compute, ""),
    )
    known = [f"{name} {rate / 1e9:.2f} GB/s{how}" for name, rate, how in named_rates if rate]
    return ", ".join(known) or "none known"


def _missing(d: Document) -> str:
    if d.rates.memory is None and d.rates.compute is None:
        return "give --memory, e.g. --memory 40GB/s"
    return "there is nothing to measure the disk with; give --disk, e.g. --disk 3.5GB/s"

"""`coli run --stats`: the plan, and beside it what happened."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from colibri.cli import figures
from colibri.words import three_digits

if TYPE_CHECKING:
    from colibri.llm import LLM
    from colibri.planner.outcome import Row
    from colibri.runtime import Stats


def outcome_rows(llm: LLM, stats: Stats, decode: Stats) -> list[Row]:
    """stats: of the answer; decode: of its tokens after the first. Measures the machine for about a
    second, in a process of its own: the model's keeps its budget."""
    from colibri.lab.rates import rates_beside
    from colibri.planner.outcome import Run, outcome

    slots = {n: len(llm.experts.resident(n)) for n in llm.plan.slots}
    run = Run(
        loaded_rss_bytes=stats.loaded_rss_bytes,
        peak_rss_bytes=stats.peak_rss_bytes,
        slots_bytes=sum(count * llm.plan.slot_bytes[n] for n, count in slots.items()),
        prompt_tokens=stats.prefill_tokens,
        new_tokens=decode.decode_tokens,
        hits=decode.hits,
        misses=decode.misses,
        bytes_read=decode.bytes_read,
        seconds=decode.decode_seconds,
    )
    return outcome(llm.plan, llm.forecast(rates_beside(llm)), run)


def lines(rows: Sequence[Row]) -> Iterator[str]:
    yield f"{'plan':<14}{'planned':>16}{'measured':>16}"
    for row in rows:
        text = f"{row.name:<14}{_shown(row, row.planned):>16}{_shown(row, row.measured):>16}"
        if row.differs:
            deviation = row.deviation
            text += "  differs" if deviation is None else f"  differs by {deviation:+.0%}"
        yield text + (f"  ({row.note})" if row.note else "")


def as_json(rows: Sequence[Row]) -> list[dict[str, Any]]:
    return [dataclasses.asdict(row) | {"deviation": row.deviation} for row in rows]


def _shown(row: Row, value: float | None) -> str:
    if value is None:
        return "-"
    if row.unit == "share":
        return figures.share(value, 1)
    return figures.size(round(value)) if row.unit == "bytes" else f"{three_digits(value)} tok/s"

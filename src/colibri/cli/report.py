"""What happened: closing lines for people, JSON for programs."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from colibri.cli import figures
from colibri.cli.generation import Answer

if TYPE_CHECKING:
    from colibri.llm import LLM
    from colibri.planner.outcome import Row
    from colibri.runtime import Stats

# Counters that grow with the model's life; the rest of Stats is a state.
_COUNTERS = (
    "prefill_tokens",
    "prefill_seconds",
    "decode_tokens",
    "decode_seconds",
    "hits",
    "misses",
    "bytes_read",
    "read_seconds",
    "wait_seconds",
    "prefetch_reads",
    "prefetch_useful",
    "prefetch_wasted_bytes",
    "prefetch_expired",
    "lookahead_missing",
    "lookahead_right",
    "guard_shrinks",
    "guard_bytes",
    "approx_tokens",
    "approx_agreed",
    "approx_kl",
    "approx_seconds",
    "approx_bytes_read",
    "experts_chosen",
    "experts_swapped",
)

CUT_OFF = "stopped at the length limit (--max-tokens, --context)"


def since(stats: Stats, before: Stats) -> Stats:
    """The counters of what lies between two readings, the state of the later one."""
    grown = {name: getattr(stats, name) - getattr(before, name) for name in _COUNTERS}
    read = {drive.directory: drive.nbytes for drive in before.drives}
    drives = tuple(
        dataclasses.replace(drive, nbytes=drive.nbytes - read.get(drive.directory, 0))
        for drive in stats.drives
    )
    return dataclasses.replace(stats, drives=drives, **grown)


def closing_lines(stats: Stats, answer: Answer, budget_bytes: int) -> list[str]:
    first = "" if answer.ttft_seconds is None else f", {_first_token(answer.ttft_seconds)}"
    used = stats.hits + stats.misses
    return [
        f"prompt   {figures.count(stats.prefill_tokens, 'token')} in "
        f"{figures.duration(stats.prefill_seconds)} "
        f"({figures.rate(stats.prefill_tokens, stats.prefill_seconds, 'tok/s')}){first}",
        f"answer   {figures.count(len(answer.token_ids), 'token')} in "
        f"{figures.duration(stats.decode_seconds)} "
        f"({figures.rate(stats.decode_tokens, stats.decode_seconds, 'tok/s')}), {ended(answer)}",
        f"experts  {figures.count(stats.hits, 'hit')}, "
        f"{figures.count(stats.misses, 'miss', 'misses')} "
        f"({figures.share(stats.hits, used)} hits, prompt and answer)"
        f"{', those of checking included' if stats.approx_tokens else ''}",
        f"disk     {figures.size(stats.bytes_read)} read, "
        f"{figures.duration(stats.wait_seconds)} waited for reads",
        *_drives(stats),
        *_ahead(stats),
        *_approximate(stats),
        f"memory   {figures.size(stats.rss_bytes)} resident, "
        f"{figures.size(stats.peak_rss_bytes)} at most, "
        f"of a budget of {figures.size(budget_bytes)}{_guarded(stats)}",
    ]


def ended(answer: Answer) -> str:
    return CUT_OFF if answer.finish_reason == "length" else f"ended by {answer.finish_reason}"


def closing_line(stats: Stats, answer: Answer, budget_bytes: int) -> list[str]:
    """The same in one line, and a line for each thing that is not as it mostly is."""
    used = stats.hits + stats.misses
    parts = [
        f"{figures.count(len(answer.token_ids), 'token')}, "
        f"{figures.rate(stats.decode_tokens, stats.decode_seconds, 'tok/s')}",
        *([] if answer.ttft_seconds is None else [_first_token(answer.ttft_seconds)]),
        f"{figures.share(stats.hits, used)} hits in prompt and answer",
        f"{figures.size(stats.peak_rss_bytes)} of {figures.size(budget_bytes)}{_guarded(stats)}",
    ]
    end = "" if answer.finish_reason == "stop" else f"; {ended(answer)}"
    return [", ".join(parts) + end, *_drives(stats), *_approximate(stats)]


def _drives(stats: Stats) -> list[str]:
    if not stats.drives:
        return []
    read = ", ".join(f"{figures.size(d.nbytes)} {d.directory}" for d in stats.drives)
    failures = sum(drive.failures for drive in stats.drives)
    failed = f"; {figures.count(failures, 'failed read')} made good" if failures else ""
    return [f"mirror   {read}{failed}"]


def _guarded(stats: Stats) -> str:
    if not stats.guard_shrinks:
        return ""
    times = figures.count(stats.guard_shrinks, "time")
    return f"; to keep it the cache gave {figures.size(stats.guard_bytes)} back ({times})"


def _ahead(stats: Stats) -> list[str]:
    if not stats.prefetch_reads:
        return []
    return [
        f"ahead    {figures.count(stats.prefetch_reads, 'expert')} read ahead, "
        f"{stats.prefetch_useful:,} useful, {figures.size(stats.prefetch_wasted_bytes)} wasted; "
        f"{figures.share(stats.lookahead_right, stats.lookahead_missing)} of the missing guessed"
    ]


def _approximate(stats: Stats) -> list[str]:
    """What an approximation cost, where it was checked, and what cache-aware routing did."""
    parts = []
    if stats.approx_tokens:
        parts.append(
            f"{figures.share(stats.approx_agreed, stats.approx_tokens)} of "
            f"{figures.count(stats.approx_tokens, 'token')} checked agree with the exact model, "
            f"KL {stats.approx_kl / stats.approx_tokens:.4f}; checking took "
            f"{figures.duration(stats.approx_seconds)} and {figures.size(stats.approx_bytes_read)}"
        )
    if stats.experts_chosen:
        swapped = figures.share(stats.experts_swapped, stats.experts_chosen)
        parts.append(f"{swapped} of the experts swapped for resident ones")
    return [f"approx   {'; '.join(parts)}"] if parts else []


def _first_token(seconds: float) -> str:
    return f"first token after {figures.duration(seconds)}"


def write_json(
    path: Path,
    llm: LLM,
    stats: Stats,
    answer: Answer,
    load_seconds: float,
    rows: Sequence[Row] | None = None,
) -> None:
    """rows: the plan against the run, where it was asked for."""
    from colibri import __version__
    from colibri.cli import outcome
    from colibri.container.output import write_text

    facts: dict[str, Any] = {
        "version": __version__,
        "model": llm.load_line,
        "plan": {"budget_bytes": llm.plan.budget_bytes, "peak_bytes": llm.plan.peak_bytes},
        "load_seconds": load_seconds,
        "ttft_seconds": answer.ttft_seconds,
        "seconds": answer.seconds,
        "finish_reason": answer.finish_reason,
        "token_ids": answer.token_ids,
        "stats": dataclasses.asdict(stats),
    }
    if rows is not None:
        facts["outcome"] = outcome.as_json(rows)
    write_text(path, json.dumps(facts, indent=2) + "\n")

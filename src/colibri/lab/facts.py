"""Results as labelled texts, for the terminal and for the page."""

from __future__ import annotations

from dataclasses import dataclass

from colibri.lab import units
from colibri.lab.clock import PHASES
from colibri.lab.results import ByReads, Conversations, Lookahead, PhaseShare, Results
from colibri.words import count


@dataclass(frozen=True)
class Section:
    title: str
    rows: list[tuple[str, str]]


def sections(r: Results) -> list[Section]:
    return [
        Section("Run", _run(r)),
        Section("Prefill", _prefill(r)),
        Section("Decode", _decode(r)),
        *([Section("Conversations", _conversations(r.conversations))] if r.conversations else []),
        Section("Memory", _memory(r)),
        Section("Machine", _machine(r)),
    ]


def lines(r: Results) -> list[str]:
    """The whole table for a terminal."""
    found = []
    for section in sections(r):
        found.append(section.title)
        found += [f"  {label:<22}{text}" for label, text in section.rows]
    found.append("Phases                    prefill               decode (a token)")
    for name in PHASES:
        pair = (_share(r.prefill.phases[name]), _share(r.decode.phases[name]))
        found.append(f"  {name:<22}{pair[0]:<22}{pair[1]}".rstrip())
    return found


def _share(share: PhaseShare) -> str:
    return f"{units.time(share.seconds):>10}  {units.percent(share.fraction):>7}"


def _run(r: Results) -> list[tuple[str, str]]:
    w = r.workload
    cold = ", cold" if w.cold else ""
    return [
        ("model", r.model.load_line),
        (
            "workload",
            f"{w.prompt_tokens} + {count(w.new_tokens, 'token')}, {count(w.repeat, 'run')}{cold}",
        ),
        ("routing", f"{w.routing}, seed {w.seed}"),
        ("colibri", f"{r.version}, commit {r.commit or 'unknown'}"),
        ("time", r.time),
        ("command", " ".join(r.command)),
        ("load", units.time(r.load_seconds)),
        ("first token", units.time(r.ttft_seconds)),
    ]


def _prefill(r: Results) -> list[tuple[str, str]]:
    p = r.prefill
    return [
        ("speed", f"{units.rate(p.tps)} (spread {units.percent(p.tps_spread)})"),
        ("hit rate", units.percent(p.hit_rate)),
        ("read", f"{units.size(p.bytes_read)}, {units.ratio(p.read_ratio)} of experts touched"),
        ("disk", _disk(p.read_seconds, p.wait_seconds)),
        ("of its floor", units.percent(p.floor_fraction)),
    ]


def _decode(r: Results) -> list[tuple[str, str]]:
    d = r.decode
    t = d.token_seconds
    return [
        ("speed", f"{units.rate(d.tps)} (spread {units.percent(d.tps_spread)})"),
        (
            "a token",
            f"p50 {units.time(t.p50)}, p95 {units.time(t.p95)}, p99 {units.time(t.p99)}",
        ),
        ("hit rate", units.percent(d.hit_rate)),
        ("read a token", units.size(d.bytes_read_per_token)),
        ("disk per token", _disk(d.read_seconds_per_token, d.wait_seconds_per_token)),
        ("lookahead", _lookahead(d.lookahead)),
        (
            "touched a token",
            f"{units.size(d.weight_bytes_per_token)} weights, "
            f"{units.size(d.kv_bytes_per_token)} keys and values",
        ),
        ("of the memory floor", units.percent(d.floor_fraction)),
        ("of the disk floor", units.percent(d.disk_floor_fraction)),
        ("of it with bursts", units.percent(d.burst_floor_fraction)),
    ]


def _conversations(c: Conversations) -> list[tuple[str, str]]:
    return [
        ("at once", f"{c.count}, together {units.rate(c.tps)}"),
        ("a step", f"{units.time(c.step_seconds)}, of one {units.time(c.step_seconds_one)}"),
        ("experts a step", f"{c.union:.1f}, of one {c.union_one:.1f}"),
        ("of them missing", f"{c.missed:.1f}, of one {c.missed_one:.1f}"),
        ("gain", f"{c.gain:.2f}, by the unions {c.predicted_gain:.2f}"),
        ("of the unions' gain", units.percent(c.of_predicted)),
        *(_by_reads(c.by_reads) if c.by_reads else ()),
    ]


def _by_reads(r: ByReads) -> list[tuple[str, str]]:
    return [
        (
            "with what is missing",
            f"gain {r.predicted_gain:.2f}: a step {units.time(r.step_seconds)}, of one "
            f"{units.time(r.step_seconds_one)}",
        ),
        ("of that gain", units.percent(r.of_predicted)),
    ]


def _lookahead(found: Lookahead | None) -> str:
    if found is None:
        return units.DASH
    return (
        f"recall {units.percent(found.recall)}, precision {units.percent(found.precision)}; "
        f"{found.reads_per_token:.2f} reads a token, {found.useful_per_token:.2f} of use, "
        f"{units.size(found.wasted_bytes_per_token)} wasted"
    )


def _disk(read: float, wait: float) -> str:
    return f"{units.time(read)} of service over all readers, {units.time(wait)} waited"


def _memory(r: Results) -> list[tuple[str, str]]:
    p = r.plan
    return [
        ("peak", f"{units.size(r.peak_rss_bytes)} resident, {units.size(p.peak_bytes)} planned"),
        ("budget", units.size(p.budget_bytes)),
        ("trunk", f"{units.size(p.trunk_bytes)} at {p.trunk_bits} bits"),
        ("embedding", units.size(p.embedding_bytes)),
        (
            "experts",
            f"{units.size(p.arena_bytes)}, {p.slots_per_layer} of {count(r.model.experts, 'slot')}",
        ),
        ("state", f"{units.size(p.state_bytes)} for {count(p.context, 'token')}"),
        (
            "activations",
            f"{units.size(p.activation_bytes)}, chunks of {count(p.prefill_chunk, 'token')}",
        ),
    ]


def _machine(r: Results) -> list[tuple[str, str]]:
    h = r.hardware
    kind = "" if h.disk_direct is None else (" direct" if h.disk_direct else " buffered")
    return [
        ("cpu", f"{h.cpu or h.machine}, {h.cpu_path} on {count(h.threads, 'thread')}"),
        ("cores", f"{h.physical_cores} physical"),
        ("memory", f"{units.size(h.memory_bytes)}, {units.bandwidth(h.memory_bandwidth)} read"),
        ("disk", f"{units.bandwidth(h.disk_bandwidth)}{kind}, {count(h.readers, 'reader')}"),
        ("disk in bursts", units.bandwidth(h.burst_bandwidth)),
        ("system", h.system),
    ]

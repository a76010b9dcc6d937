"""From what was measured to results: medians over repeats, shares of floors."""

from __future__ import annotations

import dataclasses
import platform
import statistics
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np

from colibri.container.hubcache import model_name
from colibri.container.layerexperts import main_layers
from colibri.errors import ConfigError
from colibri.experts.base import Guesses
from colibri.hardware import probe
from colibri.hardware.iobench import last_level_cache_bytes
from colibri.lab import floors, results
from colibri.lab.clock import PHASES, StepRecord, by_layer, by_phase
from colibri.lab.counters import Counters
from colibri.lab.measure import Answered, Measured
from colibri.lab.source import commit, version
from colibri.lab.together import conversations
from colibri.models.registry import family_for


def summarise(measured: Measured, command: Sequence[str]) -> results.Results:
    token = _median_token(measured.answers)
    return results.Results(
        format=results.FORMAT,
        version=version(),
        commit=commit(),
        command=list(command),
        time=datetime.now(UTC).isoformat(timespec="seconds"),
        model=_model(measured),
        workload=results.Workload(**dataclasses.asdict(measured.workload)),
        settings=_as_json_has_it(dataclasses.asdict(measured.config)),
        load_seconds=measured.load_seconds,
        ttft_seconds=statistics.median(a.ttft_seconds for a in measured.answers),
        prefill=_prefill(measured),
        decode=_decode(measured),
        peak_rss_bytes=measured.peak_rss_bytes,
        plan=_plan(measured),
        hardware=_hardware(measured),
        layers=_layers(measured),
        timeline=_timeline(token),
        conversations=_conversations(measured),
    )


def _conversations(m: Measured) -> results.Conversations | None:
    if not m.together:
        return None
    layers = main_layers(m.container.expert_layers()).values()
    size = float(np.mean([layer.slot_bytes for layer in layers])) if layers else 0.0
    one, all_of_them = m.burst_bandwidth, m.burst_bandwidth_together
    return conversations(
        m.workload.conversations,
        [a.decode for a in m.answers],
        m.together,
        read_one=size / one if one else 0.0,
        read=size / all_of_them if all_of_them else 0.0,
    )


def _as_json_has_it(settings: dict[str, Any]) -> dict[str, Any]:
    """So that settings from a file equal those of a run."""
    return {k: list(v) if isinstance(v, tuple) else v for k, v in settings.items()}


def spread(values: Sequence[float]) -> float:
    """(largest - smallest) / median."""
    return (max(values) - min(values)) / statistics.median(values)


def shares(records: list[StepRecord], wall: float, count: float) -> dict[str, results.PhaseShare]:
    """Phases over `wall` seconds, a `count`-th each; what lies between steps is Python's."""
    seconds = by_phase(records)
    seconds["python"] += wall - sum(seconds.values())
    return {p: results.PhaseShare(seconds[p] / count, seconds[p] / wall) for p in PHASES}


def _prefill(m: Measured) -> results.Prefill:
    rates = [m.workload.prompt_tokens / a.prefill_seconds for a in m.answers]
    records = [r for a in m.answers for r in a.prefill]
    wall = sum(a.prefill_seconds for a in m.answers)
    runs = len(m.answers)
    layers = m.container.expert_layers()
    touched = sum(n * layers[i].slot_bytes for a in m.answers for i, n in a.touched.items())
    read = sum(r.traffic.bytes_read for r in records)
    phases = shares(records, wall, runs)
    return results.Prefill(
        tps=statistics.median(rates),
        tps_spread=spread(rates),
        tps_runs=rates,
        seconds=wall / runs,
        hit_rate=floors.hit_rate([r.traffic for r in records]),
        bytes_read=read / runs,
        touched_bytes=touched / runs,
        read_ratio=read / touched if touched else None,
        read_seconds=sum(r.traffic.read_seconds for r in records) / runs,
        wait_seconds=sum(r.traffic.wait_seconds for r in records) / runs,
        floor_fraction=_prefill_floor(m, phases, min(read, touched) / runs, wall / runs),
        phases=phases,
    )


def _prefill_floor(
    m: Measured, phases: dict[str, results.PhaseShare], read: float, wall: float
) -> float | None:
    """None where nothing was read: prefill then has no floor but the kernels' own speed."""
    if m.disk_bandwidth is None or not read:
        return None
    idle = ("python", "expert_wait")
    compute = sum(p.seconds for name, p in phases.items() if name not in idle)
    return max(read / m.disk_bandwidth, compute) / wall


def _decode(m: Measured) -> results.Decode:
    runs = [a.token_seconds for a in m.answers]
    tokens = [t for run in runs for t in run]
    rates = [len(run) / sum(run) for run in runs]
    records = [r for a in m.answers for r in a.decode]
    wall, count = sum(tokens), len(tokens)
    weights = floors.weight_bytes(m.container, m.plan, m.experts_per_token)
    mean_length = m.workload.prompt_tokens + m.workload.new_tokens / 2
    kv = floors.kv_bytes(m.plan, mean_length)
    traffic = [r.traffic for r in records]
    return results.Decode(
        tps=statistics.median(rates),
        tps_spread=spread(rates),
        tps_runs=rates,
        token_seconds=_token_seconds(tokens),
        hit_rate=floors.hit_rate(traffic),
        bytes_read_per_token=sum(t.bytes_read for t in traffic) / count,
        weight_bytes_per_token=weights,
        kv_bytes_per_token=kv,
        read_seconds_per_token=sum(t.read_seconds for t in traffic) / count,
        wait_seconds_per_token=sum(t.wait_seconds for t in traffic) / count,
        lookahead=_lookahead(traffic),
        floor_fraction=(weights + kv) / m.memory_bandwidth * statistics.median(rates),
        disk_floor_fraction=_disk_floor(m, records, wall, m.disk_bandwidth),
        burst_floor_fraction=_disk_floor(m, records, wall, m.burst_bandwidth),
        phases=shares(records, wall, count),
    )


def _lookahead(traffic: Sequence[Counters]) -> results.Lookahead | None:
    """None where nothing was guessed."""
    guesses = sum((t.guesses for t in traffic), Guesses())
    reads = sum(t.prefetch_reads for t in traffic)
    if not guesses.guessed and not reads:
        return None
    count = len(traffic)
    return results.Lookahead(
        recall=guesses.recall,
        precision=guesses.precision,
        reads_per_token=reads / count,
        useful_per_token=sum(t.prefetch_useful for t in traffic) / count,
        wasted_bytes_per_token=sum(t.prefetch_wasted_bytes for t in traffic) / count,
        expired_per_token=sum(t.prefetch_expired for t in traffic) / count,
    )


def _disk_floor(
    m: Measured, records: list[StepRecord], wall: float, bandwidth: float | None
) -> float | None:
    if bandwidth is None:
        return None
    return floors.disk_floor(records, m.container.expert_layers(), bandwidth) / wall


def _token_seconds(tokens: Sequence[float]) -> results.TokenSeconds:
    p50, p95, p99 = np.percentile(tokens, (50, 95, 99)).tolist()
    return results.TokenSeconds(
        p50=p50, p95=p95, p99=p99, mean=statistics.fmean(tokens), max=max(tokens)
    )


def _median_token(answers: Sequence[Answered]) -> StepRecord:
    records = sorted((r for a in answers for r in a.decode), key=lambda r: r.wall)
    if not records:
        raise ConfigError("no token was decoded: the answer ended at once")
    return records[len(records) // 2]


def _timeline(record: StepRecord) -> list[results.TimelineSpan]:
    return [
        results.TimelineSpan(
            phase=span.phase,
            layer=span.layer,
            begin=span.begin,
            seconds=span.wall,
            native=span.native,
            wait=span.wait,
        )
        for span in record.spans()
    ]


def _layers(m: Measured) -> list[results.Layer]:
    records = [r for a in m.answers for r in a.decode]
    phases = _mean_phases(records)
    return [_layer(m, records, layer, phases[layer]) for layer in sorted(phases)]


def _mean_phases(records: Sequence[StepRecord]) -> dict[int, dict[str, float]]:
    total: dict[int, dict[str, float]] = {}
    for record in records:
        for layer, seconds in by_layer(record).items():
            mine = total.setdefault(layer, dict.fromkeys(PHASES, 0.0))
            for name, value in seconds.items():
                mine[name] += value / len(records)
    return total


def _layer(
    m: Measured, records: Sequence[StepRecord], layer: int, phases: dict[str, float]
) -> results.Layer:
    counts = [r.traffic.layers.get(layer, (0, 0)) for r in records]
    misses = statistics.fmean(missed for _, missed in counts)
    source = m.container.expert_layers().get(layer)
    return results.Layer(
        layer=layer,
        hits=statistics.fmean(hits for hits, _ in counts),
        misses=misses,
        missed_bytes=misses * source.slot_bytes if source else 0.0,
        phases=phases,
    )


def _model(m: Measured) -> results.Model:
    container = m.container
    layers = main_layers(container.expert_layers()).values()
    family = family_for(container.config)
    return results.Model(
        name=model_name(m.config.model, container.path),
        family=family.name,
        load_line=m.load_line,
        synthetic=(container.path / ".coli_bench").is_file(),
        layers=family.parse(container.config).num_hidden_layers,
        expert_layers=len(layers),
        experts=max((n.num_experts for n in layers), default=0),
        experts_per_token=max(m.experts_per_token.values(), default=0),
        expert_bytes=sum(n.num_experts * n.slot_bytes for n in layers),
    )


def _plan(m: Measured) -> results.PlanFacts:
    plan = m.plan
    return results.PlanFacts(
        budget_bytes=plan.budget_bytes,
        peak_bytes=plan.peak_bytes,
        process_bytes=plan.process_bytes,
        trunk_bytes=plan.trunk_bytes,
        embedding_bytes=plan.embedding_bytes,
        state_bytes=plan.state_bytes,
        activation_bytes=plan.activation_bytes,
        arena_bytes=plan.arena_bytes,
        context=plan.context,
        prefill_chunk=plan.prefill_chunk,
        slots_per_layer=max(plan.slots.values(), default=0),
        trunk_bits=str(plan.trunk_bits),
    )


def _hardware(m: Measured) -> results.Hardware:
    facts = probe.facts()
    return results.Hardware(
        machine=facts.machine,
        cpu=facts.cpu_model,
        physical_cores=facts.physical_cores,
        threads=m.threads,
        cpu_path=m.cpu_path,
        last_level_cache_bytes=last_level_cache_bytes(),
        memory_bytes=facts.memory_bytes,
        memory_bandwidth=m.memory_bandwidth,
        memory_bandwidth_samples=m.memory,
        disk_bandwidth=m.disk_bandwidth,
        disk_bandwidth_samples=[rate.bytes_per_second for rate in m.disk],
        burst_bandwidth=m.burst_bandwidth,
        burst_bandwidth_samples=m.bursts,
        disk_direct=all(rate.direct for rate in m.disk) if m.disk else None,
        readers=m.readers,
        system=f"{platform.system()} {platform.release()}",
    )

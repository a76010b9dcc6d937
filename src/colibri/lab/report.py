"""A run's results as one page that needs nothing else: no script, no font, no request."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from colibri.lab import charts, units
from colibri.lab.clock import PHASES
from colibri.lab.facts import Section, sections
from colibri.lab.page import document, section
from colibri.lab.results import PhaseShare, Results


def page(r: Results) -> str:
    """The HTML document."""
    body = "".join(part(r) for part in (_tiles, _timeline, _layers, _experts, _phases, _facts))
    return document(f"{r.model.name} - coli bench", r.model.name, r.model.load_line, body)


def _tiles(r: Results) -> str:
    tiles = (
        ("decode", units.rate(r.decode.tps)),
        ("prefill", units.rate(r.prefill.tps)),
        ("of the memory floor", units.percent(r.decode.floor_fraction)),
        ("of the disk floor", units.percent(r.decode.disk_floor_fraction)),
        ("experts hit", units.percent(r.decode.hit_rate)),
        ("first token", units.time(r.ttft_seconds)),
        ("load", units.time(r.load_seconds)),
        ("peak memory", units.size(r.peak_rss_bytes)),
    )
    inner = "".join(f'<div class="tile"><b>{v}</b><span>{n}</span></div>' for n, v in tiles)
    return f'<div class="tiles">{inner}</div>'


def _timeline(r: Results) -> str:
    words = "One decoded token of median length, from its first layer to its sampling."
    return section(
        "Timeline of a token", words, charts.legend(PHASES) + charts.timeline(r.timeline)
    )


def _layers(r: Results) -> str:
    words = "Mean of all decoded tokens. Outside: embedding, last norm, head, sampling."
    return section(
        "Time by layer and phase", words, charts.legend(PHASES) + charts.phases_by_layer(r.layers)
    )


def _experts(r: Results) -> str:
    if not any(n.hits + n.misses for n in r.layers):
        return ""
    parts = [
        section("Hit rate by layer", "Experts found in memory, decode.", charts.hit_rate(r.layers))
    ]
    if r.hardware.disk_bandwidth:
        words = (
            "Above: reading a layer's misses at the measured bandwidth. Below: its arithmetic. "
            "The longer of experts and reads bounds a layer."
        )
        chart = charts.disk_and_compute(r.layers, r.hardware.disk_bandwidth)
        parts.append(section("Disk against compute", words, chart))
    return "".join(parts) + _utilisation(r)


def _utilisation(r: Results) -> str:
    d, h = r.decode, r.hardware
    busy = 1 - d.phases["python"].fraction - d.phases["expert_wait"].fraction
    shares = [
        ("kernels", busy, "of the time"),
        ("memory", d.floor_fraction, f"of {units.bandwidth(h.memory_bandwidth)}"),
    ]
    if h.disk_bandwidth:
        used = d.bytes_read_per_token / d.token_seconds.mean / h.disk_bandwidth
        shares.append(("disk", used, f"of {units.bandwidth(h.disk_bandwidth)}"))
    words = "How much of the time kernels ran, and of what memory and disk can deliver was used."
    return section("Utilisation in decode", words, charts.utilisation(shares))


def _phases(r: Results) -> str:
    head = (
        '<tr><th>phase</th><th class="number">prefill</th><th class="number">share</th>'
        '<th class="number">a token</th><th class="number">share</th></tr>'
    )
    rows = "".join(_phase(n, r.prefill.phases, r.decode.phases) for n in PHASES)
    words = "Seconds of a prompt's prefill and of a decoded token; they sum to wall time."
    return section("Phases", words, f'<div class="chart"><table>{head}{rows}</table></div>')


def _phase(name: str, *runs: Mapping[str, PhaseShare]) -> str:
    cells = "".join(
        f'<td class="number">{units.time(run[name].seconds)}</td>'
        f'<td class="number">{units.percent(run[name].fraction)}</td>'
        for run in runs
    )
    return f"<tr><th>{name.replace('_', ' ')}</th>{cells}</tr>"


def _facts(r: Results) -> str:
    settings = [(k, str(v)) for k, v in r.settings.items() if v is not None]
    found = [*sections(r), Section("Settings", settings)]
    return f'<div class="columns">{"".join(map(_table, found))}</div>'


def _table(facts: Section) -> str:
    rows = "".join(f"<tr><th>{escape(k)}</th><td>{escape(v)}</td></tr>" for k, v in facts.rows)
    return f"<section><h2>{facts.title}</h2><table>{rows}</table></section>"

"""What a run of the bench found: the JSON of `coli bench --json`. docs/benchmarks.md says each key.

Seconds, bytes, tokens; fractions from 0 to 1. None: not measured, or it has no meaning here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from colibri.container.files import opened, read_range
from colibri.container.jsonfile import encode_json
from colibri.container.output import write_text
from colibri.errors import ConfigError

FORMAT = 1
_MAX_BYTES = 64 << 20


class PhaseShare(msgspec.Struct, frozen=True):
    seconds: float
    fraction: float


class Prefill(msgspec.Struct, frozen=True, kw_only=True):
    tps: float
    tps_spread: float
    tps_runs: list[float]
    seconds: float
    hit_rate: float | None
    bytes_read: float
    touched_bytes: float
    read_ratio: float | None
    read_seconds: float
    wait_seconds: float
    floor_fraction: float | None
    phases: dict[str, PhaseShare]


class TokenSeconds(msgspec.Struct, frozen=True, kw_only=True):
    p50: float
    p95: float
    p99: float
    mean: float
    max: float


class Lookahead(msgspec.Struct, frozen=True, kw_only=True):
    """Of guesses compared: recall and precision among experts that were not there."""

    recall: float
    precision: float
    reads_per_token: float
    useful_per_token: float
    wasted_bytes_per_token: float
    expired_per_token: float


class Decode(msgspec.Struct, frozen=True, kw_only=True):
    tps: float
    tps_spread: float
    tps_runs: list[float]
    token_seconds: TokenSeconds
    hit_rate: float | None
    bytes_read_per_token: float
    weight_bytes_per_token: int
    kv_bytes_per_token: int
    read_seconds_per_token: float
    wait_seconds_per_token: float
    lookahead: Lookahead | None
    floor_fraction: float
    disk_floor_fraction: float | None
    burst_floor_fraction: float | None
    phases: dict[str, PhaseShare]


class Layer(msgspec.Struct, frozen=True, kw_only=True):
    """Means a decoded token; layer -1: embedding, last norm, head, sampling."""

    layer: int
    hits: float
    misses: float
    missed_bytes: float
    phases: dict[str, float]


class TimelineSpan(msgspec.Struct, frozen=True, kw_only=True):
    """One stay in a phase of one token of median length; begin counts from the token's."""

    phase: str
    layer: int
    begin: float
    seconds: float
    native: float
    wait: float


class Model(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    family: str
    load_line: str
    synthetic: bool
    layers: int
    expert_layers: int
    experts: int
    experts_per_token: int
    expert_bytes: int


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    prompt_tokens: int
    new_tokens: int
    warmup: int
    repeat: int
    cold: bool
    routing: str
    seed: int
    conversations: int = 1


class ByReads(msgspec.Struct, frozen=True, kw_only=True):
    """What the experts that were missing predict too. Seconds, all measured: to read an expert as
    one conversation and as all of them ask, to multiply one, the rest of a step; then a step as
    they predict it."""

    read_seconds_one: float
    read_seconds: float
    multiply_seconds: float
    rest_seconds: float
    step_seconds_one: float
    step_seconds: float
    predicted_gain: float
    of_predicted: float


class Conversations(msgspec.Struct, frozen=True, kw_only=True):
    """Several at once, beside one alone: a step's seconds, its distinct experts over all layers and
    those of them that were not there."""

    count: int
    step_seconds_one: float
    step_seconds: float
    tps: float  # of all together
    union_one: float
    union: float
    missed_one: float
    missed: float
    gain: float
    predicted_gain: float
    of_predicted: float
    by_reads: ByReads | None = None  # results of older versions have none


class PlanFacts(msgspec.Struct, frozen=True, kw_only=True):
    budget_bytes: int
    peak_bytes: int
    process_bytes: int
    trunk_bytes: int
    embedding_bytes: int
    state_bytes: int
    activation_bytes: int
    arena_bytes: int
    context: int
    prefill_chunk: int
    slots_per_layer: int
    trunk_bits: str


class Hardware(msgspec.Struct, frozen=True, kw_only=True):
    machine: str
    cpu: str | None
    physical_cores: int
    threads: int
    cpu_path: str
    last_level_cache_bytes: int | None
    memory_bytes: int
    memory_bandwidth: float
    memory_bandwidth_samples: list[float]
    disk_bandwidth: float | None
    disk_bandwidth_samples: list[float]
    burst_bandwidth: float | None
    burst_bandwidth_samples: list[float]
    disk_direct: bool | None
    readers: int
    system: str


class Results(msgspec.Struct, frozen=True, kw_only=True):
    format: int
    version: str
    commit: str | None
    command: list[str]
    time: str
    model: Model
    workload: Workload
    settings: dict[str, Any]
    load_seconds: float
    ttft_seconds: float
    prefill: Prefill
    decode: Decode
    peak_rss_bytes: int
    plan: PlanFacts
    hardware: Hardware
    layers: list[Layer]
    timeline: list[TimelineSpan]
    conversations: Conversations | None = None


def save_results(path: Path, results: Results) -> None:
    write_text(path, msgspec.json.format(encode_json(results), indent=2).decode() + "\n")


def load_results(path: Path) -> Results:
    """Raises ContainerError if the file cannot be read, ConfigError if it is none of ours."""
    with opened(path) as (fd, size):
        data = read_range(fd, path, 0, min(size, _MAX_BYTES))
    try:
        results = msgspec.json.decode(data, type=Results)
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise ConfigError(f"{path}: no results of coli bench: {error}") from None
    if results.format != FORMAT:
        raise ConfigError(f"{path}: results in format {results.format}; this one reads {FORMAT}")
    return results

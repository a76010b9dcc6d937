"""The keys of --json are a promise, and its numbers hang together."""

from itertools import pairwise

import msgspec
import pytest

from colibri.errors import ConfigError, ContainerError
from colibri.lab.clock import PHASES
from colibri.lab.compare import comparison
from colibri.lab.facts import lines
from colibri.lab.results import Results, load_results, save_results

# Adding a key is fine; renaming or removing one breaks whoever reads old files.
KEYS = [
    "format",
    "version",
    "commit",
    "command",
    "time",
    "load_seconds",
    "ttft_seconds",
    "peak_rss_bytes",
    "model.name",
    "model.family",
    "model.load_line",
    "model.synthetic",
    "model.layers",
    "model.expert_layers",
    "model.experts",
    "model.experts_per_token",
    "model.expert_bytes",
    "workload.prompt_tokens",
    "workload.new_tokens",
    "workload.warmup",
    "workload.repeat",
    "workload.cold",
    "workload.routing",
    "workload.seed",
    "settings.ram",
    "settings.cache_experts",
    "settings.trunk_bits",
    "settings.activations",
    "settings.threads",
    "prefill.tps",
    "prefill.tps_spread",
    "prefill.tps_runs",
    "prefill.seconds",
    "prefill.hit_rate",
    "prefill.bytes_read",
    "prefill.touched_bytes",
    "prefill.read_ratio",
    "prefill.read_seconds",
    "prefill.wait_seconds",
    "prefill.floor_fraction",
    "decode.tps",
    "decode.tps_spread",
    "decode.tps_runs",
    "decode.hit_rate",
    "decode.bytes_read_per_token",
    "decode.token_seconds.p50",
    "decode.token_seconds.p95",
    "decode.token_seconds.p99",
    "decode.token_seconds.mean",
    "decode.token_seconds.max",
    "decode.weight_bytes_per_token",
    "decode.kv_bytes_per_token",
    "decode.read_seconds_per_token",
    "decode.wait_seconds_per_token",
    "decode.floor_fraction",
    "decode.lookahead",
    "decode.disk_floor_fraction",
    "decode.burst_floor_fraction",
    "plan.budget_bytes",
    "plan.peak_bytes",
    "plan.process_bytes",
    "plan.trunk_bytes",
    "plan.embedding_bytes",
    "plan.state_bytes",
    "plan.activation_bytes",
    "plan.arena_bytes",
    "plan.context",
    "plan.prefill_chunk",
    "plan.slots_per_layer",
    "plan.trunk_bits",
    "hardware.machine",
    "hardware.cpu",
    "hardware.physical_cores",
    "hardware.threads",
    "hardware.cpu_path",
    "hardware.last_level_cache_bytes",
    "hardware.memory_bytes",
    "hardware.memory_bandwidth",
    "hardware.memory_bandwidth_samples",
    "hardware.disk_bandwidth_samples",
    "hardware.burst_bandwidth",
    "hardware.burst_bandwidth_samples",
    "hardware.disk_bandwidth",
    "hardware.disk_direct",
    "hardware.readers",
    "hardware.system",
    "layers",
    "timeline",
]
PHASE_NAMES = (
    "route", "expert_wait", "expert_matmul", "shared_expert", "attention", "dense", "head",
    "sampling", "python",
)  # fmt: skip


def at(tree, key):
    for name in key.split("."):
        tree = tree[name]
    return tree


@pytest.fixture(scope="session")
def tree(results):
    return msgspec.to_builtins(results)


def test_keys_are_stable(tree):
    for key in KEYS:
        at(tree, key)
    for part in ("prefill", "decode"):
        for name in PHASE_NAMES:
            assert at(tree, f"{part}.phases.{name}").keys() == {"seconds", "fraction"}
    assert PHASES == PHASE_NAMES


@pytest.mark.parametrize("part", ["prefill", "decode"])
def test_phases_sum_to_wall_time(tree, part):
    phases = tree[part]["phases"].values()
    assert sum(p["fraction"] for p in phases) == pytest.approx(1, abs=0.02)
    seconds = tree["decode"]["token_seconds"]["mean"]
    wall = seconds if part == "decode" else tree["prefill"]["seconds"]
    assert sum(p["seconds"] for p in phases) == pytest.approx(wall, rel=0.02)


def test_a_cold_prompt_reads_the_experts_it_touches(results):
    assert results.prefill.hit_rate == 0
    assert results.prefill.touched_bytes > 0
    assert results.prefill.read_ratio >= 1


def test_what_was_read_is_what_was_missed(results):
    missed = sum(layer.missed_bytes for layer in results.layers)
    assert results.decode.bytes_read_per_token == pytest.approx(missed)
    asked = sum(layer.hits + layer.misses for layer in results.layers)
    assert asked == results.model.experts_per_token * results.model.expert_layers
    assert 0 < results.decode.hit_rate < 1


def test_floors_follow_their_formulas(results):
    d = results.decode
    floor = (d.weight_bytes_per_token + d.kv_bytes_per_token) / 10e9
    assert d.floor_fraction == pytest.approx(floor * d.tps)
    assert results.plan.trunk_bytes < d.weight_bytes_per_token
    assert d.disk_floor_fraction > 0
    assert results.hardware.burst_bandwidth == 0.5e9
    assert d.burst_floor_fraction > d.disk_floor_fraction


def test_the_timeline_is_one_token_without_holes(results):
    spans = results.timeline
    for before, after in pairwise(spans):
        assert after.begin == pytest.approx(before.begin + before.seconds, abs=1e-6)
    assert {s.layer for s in spans} == {-1, *range(results.model.layers)}


def test_results_survive_a_file(results, tmp_path):
    save_results(tmp_path / "a.json", results)
    assert load_results(tmp_path / "a.json") == results
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]


def test_files_that_are_no_results_are_refused(results, tmp_path):
    path = tmp_path / "a.json"
    with pytest.raises(ContainerError, match="no such file"):
        load_results(path)
    path.write_text('{"decode": 3}')
    with pytest.raises(ConfigError, match="no results"):
        load_results(path)
    save_results(path, msgspec.structs.replace(results, format=99))
    with pytest.raises(ConfigError, match="format 99"):
        load_results(path)


def faster(results: Results, factor: float, spread: float = 0.0) -> Results:
    decode = msgspec.structs.replace(
        results.decode, tps=results.decode.tps * factor, tps_spread=spread
    )
    return msgspec.structs.replace(results, decode=decode)


def test_comparison_gives_ratios_and_minds_the_spread(results):
    def line(a, b):
        return next(text for text in comparison(a, b) if text.startswith("decode.tps"))

    calm = faster(results, 1)
    assert line(calm, faster(results, 1.5)).split()[3:] == ["1.500", "better"]
    assert line(calm, faster(results, 0.5)).split()[3:] == ["0.500", "worse"]
    assert "within the spread" in line(calm, faster(results, 1.05, spread=0.2))


def test_comparison_says_what_was_set_differently(results):
    other = msgspec.structs.replace(results, settings=results.settings | {"readers": 9})
    first = comparison(results, other)[0]
    assert first == f"differs  settings.readers: {results.settings['readers']} -> 9"
    assert not comparison(results, results)[0].startswith("differs")


def test_the_table_holds_the_main_numbers(results):
    text = "\n".join(lines(results))
    for part in ("tok/s", "p95", "of the memory floor", "of the disk floor", *PHASE_NAMES):
        assert part in text

"""A replay counts what the engine counted, to the last hit."""

import pytest

from colibri import LLM
from colibri.experts.cache.policies import POLICIES
from colibri.lab.replay.caches import CacheReplay
from colibri.lab.replay.demands import demands
from colibri.routing.trace import TraceFile
from colibri.runtime import parts, runtime
from colibri.sampling import SamplingParams

# Walks chunks of more than 8 rows in ascending order: the outputs of 4 experts of 256 floats each.
SMALL_BUFFER = 8 * 4 * 4 * 256
PROMPT = list(range(100, 130))


def recorded(path, **settings):
    """The engine's own counts of a run with three sequences, and what is resident after it."""
    params = SamplingParams(temperature=0.0, max_tokens=4, ignore_eos=True)
    with LLM(ram="1GB", lookahead="off", prefill_chunk=13, trace=str(path), **settings) as llm:
        llm.generate([PROMPT, PROMPT[:5], [7]], params)
        experts = llm.experts
        counts = experts.layer_counts()
        return counts, experts.stats(), {n: experts.resident(n) for n in counts}


def replayed(path, policy, scope):
    trace = TraceFile(path)
    layers = trace.header.layers
    caches = CacheReplay(layers, {n.layer: n.slots for n in layers}, policy, scope)
    for demand in demands(trace):
        caches.call(demand)
    return caches


@pytest.mark.parametrize(
    ("slots", "scope", "buffer"),
    [(1, "layer", 0), (2, "global", SMALL_BUFFER), (3, "layer", SMALL_BUFFER), (9, "layer", 0)],
)
@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy(tmp_path, monkeypatch, policy, slots, scope, buffer):
    if buffer:
        for module in (parts, runtime):
            monkeypatch.setattr(module, "PAIR_BUFFER_BYTES", buffer)
    path = tmp_path / "run.trace"
    settings = {"cache_experts": slots, "policy": policy, "cache_scope": scope}
    counts, stats, resident = recorded(path, **settings)
    caches = replayed(path, policy, scope)
    tally = caches.tally()
    assert {n: (c.hits, c.misses) for n, c in tally.by_layer.items()} == counts
    assert (tally.evictions, tally.reads, tally.bytes_read) == (
        stats.evictions,
        stats.reads,
        stats.bytes_read,
    )
    assert {n: caches.resident(n) for n in counts} == resident
    assert stats.evictions > 0

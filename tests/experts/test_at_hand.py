"""Router and experts in one call where all are at hand: what is counted and learnt is the same."""

import dataclasses

import pytest

from colibri import LLM, SamplingParams
from colibri.experts.streamed import StreamedExperts
from colibri.experts.usage.counts import UsageRecorder

PARAMS = SamplingParams(temperature=0.0, max_tokens=12, ignore_eos=True)
PROMPT = list(range(40, 70))


def run(monkeypatch, apart, **settings):
    """Tokens, counters of the executor and all calls noted; how many calls were one."""
    notes, fused = [], []
    with monkeypatch.context() as patch:
        if apart:
            patch.setattr(StreamedExperts, "settled", lambda self, layer: False)
        note, ran = UsageRecorder.note, StreamedExperts.ran
        patch.setattr(
            UsageRecorder,
            "note",
            lambda self, n, ids: (notes.append((n, ids.tolist())), note(self, n, ids)),
        )
        patch.setattr(
            StreamedExperts, "ran", lambda self, *call: (fused.append(call), ran(self, *call))
        )
        with LLM(**settings) as llm:
            tokens = [llm.generate(PROMPT, PARAMS).token_ids for _ in range(2)]
            stats = llm.experts.stats()
    kept = {f.name for f in dataclasses.fields(stats)} - {"read_seconds", "wait_seconds"}
    return tokens, {name: getattr(stats, name) for name in kept}, notes, len(fused)


# The embedded model's layers have more experts than 20, fewer than 1000.
@pytest.mark.parametrize("slots", [20, 1000])
def test_counters_and_notes(monkeypatch, slots):
    settings = {"cache_experts": slots, "lookahead": "off", "prefix_cache": 0}
    *one, fused = run(monkeypatch, False, **settings)
    *two, none = run(monkeypatch, True, **settings)
    assert one == two
    assert fused > 0
    assert none == 0

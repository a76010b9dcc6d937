"""Layers in one call, or router and experts in one, where experts are at hand: answers, counters
and what is learnt are the same."""

import dataclasses
from pathlib import Path

import pytest

from colibri import LLM, SamplingParams
from colibri.experts.streamed import StreamedExperts
from colibri.experts.usage.counts import UsageRecorder

TINY = Path(__file__).parents[1] / "fixtures" / "tiny"
PARAMS = SamplingParams(temperature=0.0, max_tokens=12, ignore_eos=True, logprobs=3)
PROMPT = list(range(20, 32))


def run(monkeypatch, path, apart, **settings):
    """Answers, counters of the executor and all calls noted; how many of these were fused."""
    notes, fused = [], []
    with monkeypatch.context() as patch:
        if apart:
            patch.setattr(StreamedExperts, "settled", property(lambda self: False))
        note, ran = UsageRecorder.note, StreamedExperts.ran
        patch.setattr(
            UsageRecorder,
            "note",
            lambda self, n, ids: (notes.append((n, ids.tolist())), note(self, n, ids)),
        )
        patch.setattr(
            StreamedExperts, "ran", lambda self, *call: (fused.append(call), ran(self, *call))
        )
        with LLM(path, **settings) as llm:
            answers = [llm.generate(PROMPT, PARAMS) for _ in range(2)]
            stats = llm.experts.stats()
    told = [(answer.token_ids, answer.logprobs) for answer in answers]
    kept = {f.name for f in dataclasses.fields(stats)} - {"read_seconds", "wait_seconds"}
    return told, {name: getattr(stats, name) for name in kept}, notes, len(fused)


# All layers alike; a shared expert; layers with attention of another kind.
@pytest.mark.parametrize("family", ["olmoe", "qwen2_moe", "qwen3_5_moe"])
@pytest.mark.parametrize("slots", [6, 1000])
def test_answers_counters_and_notes(monkeypatch, family, slots):
    settings = {"cache_experts": slots, "lookahead": "off", "prefix_cache": 0}
    *one, fused = run(monkeypatch, TINY / family, False, **settings)
    *two, none = run(monkeypatch, TINY / family, True, **settings)
    assert one == two
    assert fused > 0
    assert none == 0

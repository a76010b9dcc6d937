"""The same bits whatever the expert cache: every scope, policy, lookahead and capacity, for prompts
and for decoding, alone and in company.

Slots are poisoned as soon as they are given up or read into, so that a slot which is used after it
was taken away shows in the logits, however fast the disk is.
"""

import functools
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from faults import Faulty, jitter
from numpy.typing import NDArray
from poison import Poison

import colibri.layers.trial as trial
import colibri.runtime.runtime
import golden
from colibri import LLM
from colibri.experts.cache.policies import POLICIES
from colibri.experts.streamed import StreamedExperts
from colibri.layers.step import Step
from promises import assert_same_bits

F32 = NDArray[np.float32]
Prompts = tuple[tuple[int, ...], ...]
DECODED = 4  # tokens

CASES = list(itertools.product(("layer", "global"), POLICIES, ("off", "auto", 1, 2, 8)))


@pytest.fixture(autouse=True)
def hostile(monkeypatch: pytest.MonkeyPatch) -> Iterator[Poison]:
    """Reads take unlike times, and lookahead's auto reads ahead after a few steps."""
    slow_experts = functools.partial(StreamedExperts, read=Faulty(jitter))
    monkeypatch.setattr(colibri.runtime.runtime, "StreamedExperts", slow_experts)
    for name, value in {"WATCH_STEPS": 2, "LEAST_MISSING": 1, "WINDOW_STEPS": 3}.items():
        monkeypatch.setattr(trial, name, value)
    return Poison(monkeypatch)


@pytest.mark.parametrize(("scope", "policy", "lookahead"), CASES)
@pytest.mark.parametrize("family", golden.FAMILIES)
def test_every_cache(
    family: str, scope: str, policy: str, lookahead: Any, model_of: Any, hostile: Poison
) -> None:
    """At every capacity from one expert a layer to all of them, one conversation and four by turns,
    so that each setting and each capacity sees both."""
    path = model_of(family, ("source", "int4")[CASES.index((scope, policy, lookahead)) % 2])
    prompts = conversations(family)
    expected = undisturbed(path, prompts)
    settings = {"cache_scope": scope, "policy": policy, "lookahead": lookahead}
    with LLM(path, cache_experts=1, **settings) as llm:
        for capacity in range(1, max(llm.plan.experts_per_layer.values()) + 1):
            llm.experts.resize(capacity)
            alone = (CASES.index((scope, policy, lookahead)) + capacity) % 2 == 0
            check_prompts_and_decoding(llm, prompts[:1] if alone else prompts, expected)
        stats = llm.experts.stats()
    assert min(hostile.given_up, hostile.begun) > 0
    assert (stats.prefetch_reads > 0) == (lookahead != "off")


def check_prompts_and_decoding(llm: LLM, prompts: Prompts, expected: tuple[F32, ...]) -> None:
    """Whole prompts, then a part of them token by token."""
    for sizes in ([len(prompts[0])], [5, *[1] * DECODED]):
        got = _walk(llm, prompts, sizes)
        for logits, want in zip(got, expected, strict=False):
            assert_same_bits(logits, want[: sum(sizes)])


def conversations(family: str) -> Prompts:
    """The reference prompt, and three of its length that name other experts."""
    first = golden.reference(family).prompt_ids
    others = [[(7 * token + n) % 100 for token in first] for n in (1, 2, 3)]
    return (tuple(first), *map(tuple, others))


@functools.cache
def undisturbed(path: Path, prompts: Prompts) -> tuple[F32, ...]:
    """The logits of each prompt alone, everything resident, nothing read ahead."""
    with LLM(path, lookahead="off") as llm:
        return tuple(llm.forward(prompt) for prompt in prompts)


def _walk(llm: LLM, prompts: Prompts, sizes: Sequence[int]) -> list[F32]:
    """The logits of each conversation; each step takes the next so many tokens of all of them."""
    model = llm._engine.model
    states = [model.new_state(len(prompt)) for prompt in prompts]
    found: list[list[F32]] = [[] for _ in prompts]
    begin = 0
    for size in sizes:
        rows = [prompt[begin : begin + size] for prompt in prompts]
        logits = model.logits(model.forward(Step.of(list(zip(states, rows, strict=True)))))
        for n, part in enumerate(np.split(logits, len(prompts))):
            found[n].append(part)
        begin += size
    return [np.concatenate(parts) for parts in found]

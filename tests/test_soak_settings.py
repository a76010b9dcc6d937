"""Models under a thousand settings drawn at random: no bit of any answer differs.

Everything that placement may change is drawn; precision, which may change bits, is drawn too and
held to an undisturbed run of the same precision.
"""

from __future__ import annotations

import functools
import random
from pathlib import Path
from typing import Any

import pytest
from faults import Faulty, jitter
from poison import Poison

import colibri.layers.trial as trial
import colibri.runtime.runtime
import golden
from colibri import LLM, SamplingParams
from colibri.answer import Completion
from colibri.experts.cache.policies import POLICIES
from colibri.experts.streamed import StreamedExperts
from colibri.kernels import cpu
from promises import assert_same_bits

CONFIGURATIONS = 1000
GROUPS = 20
EMBEDDED = "embedded"


@pytest.mark.soak
@pytest.mark.parametrize("group", range(GROUPS))
def test_any_settings(group: int, model_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    slow_experts = functools.partial(StreamedExperts, read=Faulty(jitter))
    monkeypatch.setattr(colibri.runtime.runtime, "StreamedExperts", slow_experts)
    for name, value in {"WATCH_STEPS": 4, "LEAST_MISSING": 4, "WINDOW_STEPS": 4}.items():
        monkeypatch.setattr(trial, name, value)
    Poison(monkeypatch)
    for number in range(group, CONFIGURATIONS, GROUPS):
        _check(random.Random(number), model_of)


def _check(rng: random.Random, model_of: Any) -> None:
    family = rng.choice([*golden.FAMILIES, EMBEDDED])
    variant = rng.choice(["source", "int4"]) if family != EMBEDDED else "int4"
    path = None if family == EMBEDDED else model_of(family, variant)
    precision = _precision(rng, variant)
    prompts = _prompts(family, rng.randrange(3))
    logits, answers = _undisturbed(path, tuple(sorted(precision.items())), prompts)
    settings = {**precision, **_placement(rng)}
    try:
        with LLM(path, **settings) as llm:
            for _ in range(2):
                assert_same_bits(llm.forward(prompts[0]), logits)
                company = rng.choice([prompts[:1], prompts])
                got = llm.generate([list(prompt) for prompt in company], _params())
                assert _told(got) == answers[: len(company)]
    except AssertionError as error:
        raise AssertionError(f"{family} {variant} {settings}: {error}") from error


def _precision(rng: random.Random, variant: str) -> dict[str, Any]:
    if variant == "source":
        return {"trunk_bits": rng.choice([4, 8, "source"])}
    return {
        "activations": rng.choice(["int8", "int8x2"]),
        "cache_bits": rng.choice(["stored", "stored", 3]),
    }


def _placement(rng: random.Random) -> dict[str, Any]:
    return {
        "cache_experts": rng.choice([1, 2, 3, 4, 5, 6, 7, 8, 12]),
        "cache_scope": rng.choice(["layer", "global"]),
        "policy": rng.choice([*POLICIES, "auto"]),
        "lookahead": rng.choice(["off", "auto", 1, 2, 3, 8]),
        "pin": rng.choice(["auto", "0", "50%", "all"]),
        "prefill_chunk": rng.choice([None, 1, 3, 7, 16]),
        "threads": rng.choice([1, 2, 3]),
        "cpu": rng.choice(cpu.supported_paths()),
        "readers": rng.choice(["auto", 1, 2, 4]),
        "direct": rng.choice(["auto", "off"]),
        "verify_reads": rng.choice(["on", "off"]),
        "prefix_cache": rng.choice(["auto", 0]),
    }


def _prompts(family: str, which: int) -> tuple[tuple[int, ...], ...]:
    first = [4, 9, 30, 77] * 6 if family == EMBEDDED else golden.reference(family).prompt_ids
    return tuple(tuple((7 * token + n) % 90 for token in first) for n in range(which, which + 4))


def _params() -> SamplingParams:
    return SamplingParams(temperature=0.0, max_tokens=24, ignore_eos=True, logprobs=0)


def _told(answers: list[Completion]) -> list[Any]:
    return [(answer.token_ids, answer.logprobs) for answer in answers]


@functools.cache
def _undisturbed(
    path: Path | None, precision: tuple[tuple[str, Any], ...], prompts: tuple[tuple[int, ...], ...]
) -> Any:
    """Logits of the first prompt and all answers, each alone, everything resident."""
    with LLM(path, lookahead="off", prefix_cache=0, threads=1, **dict(precision)) as llm:
        answers = [llm.generate(list(prompt), _params()) for prompt in prompts]
        return llm.forward(prompts[0]), _told(answers)

"""Many requests of all kinds, coming and leaving at random, over a small context and a small cache:
each answer is its solo run's, and nothing is left behind."""

import random
from typing import Any

import pytest

import golden
from colibri import LLM
from colibri.engine.request import Request
from engine_kit import answer_of, ask, branches_of, engine_of, prompt_logprobs_of, run


@pytest.mark.soak
@pytest.mark.parametrize("family", golden.FAMILIES)
@pytest.mark.parametrize("context", [70, 400])
def test_any_company(family: str, context: int) -> None:
    rng = random.Random(f"{family}{context}")
    with LLM(golden.tiny(family), cache_experts=3) as llm:
        overhead = llm._engine._states._overhead
        settings = {"context": context + (context // 100) * overhead}
        engine = engine_of(llm, prefill_chunk=7, **settings)
        asked: list[tuple[Request, dict[str, Any], list[int]]] = []
        for _ in range(150):
            prompt, wish = _prompt(rng), _wish(rng)
            asked.append((ask(engine, prompt, **wish), wish, prompt))
            for _ in range(rng.choice([0, 0, 1, 3, 9])):
                engine.step()
            if rng.random() < 0.2:
                rng.choice(asked)[0].cancel()
        run(engine)
        assert not engine._states._lent
        assert engine._states._taken() <= engine._states._all
        for request, wish, prompt in asked:
            if not request.cancelled:
                assert _found(request, wish) == _alone(llm, prompt, wish, settings)


def _prompt(rng: random.Random) -> list[int]:
    """One of few beginnings, now and then cut, and an end of its own."""
    begin = [(7 * t + rng.choice([3, 3, 3, 4])) % 90 for t in range(rng.choice([5, 20, 40]))]
    return begin + [rng.randrange(90) for _ in range(rng.randrange(1, 9))]


def _wish(rng: random.Random) -> dict[str, Any]:
    kind = rng.randrange(4)
    if kind == 0:
        return {"branches": [[rng.randrange(4) for _ in range(rng.randrange(1, 5))] for _ in "abc"]}
    if kind == 1:
        return {"prompt_logprobs": rng.randrange(3), "max_tokens": rng.randrange(3)}
    return {"temperature": 0.9, "seed": rng.randrange(9), "max_tokens": rng.randrange(1, 12)}


def _found(request: Request, wish: dict[str, Any]) -> Any:
    if "branches" in wish:
        return branches_of(request)
    if "prompt_logprobs" in wish:
        return prompt_logprobs_of(request)
    return answer_of(request)


def _alone(llm: LLM, prompt: list[int], wish: dict[str, Any], settings: dict[str, Any]) -> Any:
    engine = engine_of(llm, prefix_cache=0, **settings)
    request = ask(engine, prompt, **wish)
    run(engine)
    return _found(request, wish)

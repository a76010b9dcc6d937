"""The sampler against a plain reading of its definition; draws against their probabilities."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colibri.errors import ColibriError, ConfigError
from colibri.sampling import Sampler, SamplingParams, check_bias
from colibri.sampling.sampler import F32, best, candidates, draw, uniform


def logits_of(*values: float) -> F32:
    return np.array(values, np.float32)


def random_logits(size: int = 3000, seed: int = 0) -> F32:
    return (np.random.default_rng(seed).standard_normal(size) * 3).astype(np.float32)


def choose(
    logits: F32,
    *,
    prompt: tuple[int, ...] = (),
    generated: tuple[int, ...] = (),
    position: int = 0,
    **params: object,
) -> int:
    sampler = Sampler(SamplingParams(**params), prompt)  # type: ignore[arg-type]
    return sampler.sample(logits, position, generated).token


# Greedy


def test_greedy_takes_the_largest_and_the_lowest_id_of_equals() -> None:
    assert choose(logits_of(1, 5, 5, 2), temperature=0) == 1
    assert choose(logits_of(-3, -math.inf, -3), temperature=0) == 0
    assert choose(logits_of(1, 5, 4), temperature=1e-7, seed=3) == 1


def test_logits_are_left_alone() -> None:
    logits = random_logits()
    before = logits.copy()
    logits.flags.writeable = False
    choose(
        logits,
        prompt=(1, 2),
        generated=(3, 3),
        repetition_penalty=1.3,
        presence_penalty=1,
        frequency_penalty=1,
        logit_bias={5: 2.0},
        top_k=20,
        top_p=0.9,
        min_p=0.01,
        temperature=0.8,
        logprobs=3,
    )
    assert np.array_equal(logits, before)


# Penalties and bias, seen through greedy choices


def test_repetition_penalty_sees_prompt_and_answer() -> None:
    logits = logits_of(4, 3.5, 3, -1)
    assert choose(logits, temperature=0, repetition_penalty=2.0) == 0
    assert choose(logits, temperature=0, repetition_penalty=2.0, prompt=(0,)) == 1
    assert choose(logits, temperature=0, repetition_penalty=2.0, prompt=(0,), generated=(1,)) == 2
    negative = logits_of(-1, -1.5)
    assert choose(negative, temperature=0, repetition_penalty=2.0, prompt=(0,)) == 1


def test_presence_and_frequency_see_the_answer_only() -> None:
    logits = logits_of(4, 3.5, 1)
    assert choose(logits, temperature=0, presence_penalty=1, prompt=(0,)) == 0
    assert choose(logits, temperature=0, presence_penalty=1, generated=(0,)) == 1
    assert choose(logits, temperature=0, frequency_penalty=0.2, generated=(0, 0)) == 0
    assert choose(logits, temperature=0, frequency_penalty=0.2, generated=(0, 0, 0)) == 1
    assert choose(logits, temperature=0, presence_penalty=-2, generated=(1,)) == 1


def test_logit_bias() -> None:
    logits = logits_of(4, 3, 1)
    assert choose(logits, temperature=0, logit_bias={2: 10.0}) == 2
    assert choose(logits, temperature=0, logit_bias={0: -100.0}) == 1
    with pytest.raises(ConfigError, match="token 3; the model's ids end at 2"):
        check_bias(SamplingParams(logit_bias={3: 1.0}), vocab_size=3)
    check_bias(SamplingParams(logit_bias={2: 1.0}), vocab_size=3)


# Cuts


def softmax(logits: F32) -> np.ndarray:
    values = np.exp(logits.astype(np.float64) - logits.max())
    return values / values.sum()


def kept(logits: F32, **params: object) -> list[int]:
    return candidates(logits, SamplingParams(**params))[0].tolist()  # type: ignore[arg-type]


def test_top_k_keeps_the_lower_id_of_equals() -> None:
    assert kept(logits_of(1, 3, 2, 2, 2), top_k=3) == [1, 2, 3]
    assert kept(logits_of(1, 3, 2), top_k=50) == [0, 1, 2]


def test_top_p_keeps_the_token_that_crosses() -> None:
    logits = np.log(np.array([0.15, 0.5, 0.05, 0.3], np.float32))
    assert kept(logits, top_p=0.0) == [1]
    assert kept(logits, top_p=0.4) == [1]
    assert kept(logits, top_p=0.6) == [1, 3]
    assert kept(logits, top_p=0.9) == [0, 1, 3]
    assert kept(logits, top_p=1.0) == [0, 1, 2, 3]


def test_min_p_is_relative_to_the_best() -> None:
    logits = np.log(np.array([0.15, 0.5, 0.05, 0.3], np.float32))
    assert kept(logits, min_p=0.5) == [1, 3]
    assert kept(logits, min_p=0.2) == [0, 1, 3]
    assert kept(logits, min_p=1.0) == [1]


def test_temperature_comes_before_top_p_and_top_k_before_it() -> None:
    logits = np.log(np.array([0.4, 0.3, 0.2, 0.1], np.float32))
    assert kept(logits, top_p=0.5) == [0, 1]
    assert kept(logits, top_p=0.5, temperature=0.2) == [0]
    # Of the two that top-k leaves, the first has 4/7.
    assert kept(logits, top_k=2, top_p=0.55) == [0]


@settings(max_examples=40)
@given(
    values=st.lists(st.integers(-12, 12), min_size=1, max_size=60),
    top_k=st.integers(0, 70),
    top_p=st.sampled_from([0.0, 0.3, 0.7, 0.95, 1.0]),
    min_p=st.sampled_from([0.0, 0.05, 0.5]),
)
def test_cuts_follow_their_definition(
    values: list[int], top_k: int, top_p: float, min_p: float
) -> None:
    logits = np.array(values, np.float32) / 2
    order = sorted(range(len(values)), key=lambda i: (-values[i], i))[: top_k or None]
    probs = softmax(logits[order])
    if top_p < 1.0:
        before = np.cumsum(probs) - probs
        near = np.abs(np.cumsum(probs) - top_p) < 1e-5
        if near.any():
            return  # rounding decides
        order = [i for n, i in enumerate(order) if n == 0 or before[n] < top_p]
    least = math.exp(logits[order[0]]) * min_p
    expected = sorted(i for i in order if math.exp(logits[i]) >= least * (1 - 1e-6))
    if all(abs(math.exp(logits[i]) - least) > 1e-6 * least for i in order) or min_p == 0:
        assert kept(logits, top_k=top_k, top_p=top_p, min_p=min_p) == expected


@pytest.mark.parametrize("count", [1, 7, 1024, 2999, 3000, 5000])
def test_best_orders_like_a_stable_sort(count: int) -> None:
    logits = np.round(random_logits())  # many equals, both signs
    logits[::7] = -0.0
    logits[5] = -np.inf
    assert best(logits, count).tolist() == np.argsort(-logits, kind="stable")[:count].tolist()


def test_a_long_tail_gives_the_same_cut_as_a_full_sort() -> None:
    logits = random_logits(20_000) / 6  # 0.9 needs far more than the first look
    ids, probs = candidates(logits, SamplingParams(top_p=0.9))
    order = np.argsort(-logits, kind="stable")
    assert len(ids) > 5000
    assert np.array_equal(np.sort(order[: len(ids)]), ids)
    assert probs.sum() == pytest.approx(0.9, abs=1e-3)


# Draws


def test_draws_follow_the_probabilities() -> None:
    logits = np.log(np.array([0.1, 0.2, 0.0001, 0.6999], np.float32))
    sampler = Sampler(SamplingParams(seed=11), ())
    tokens = [sampler.sample(logits, position, ()).token for position in range(4000)]
    shares = np.bincount(tokens, minlength=4) / len(tokens)
    assert shares == pytest.approx([0.1, 0.2, 0.0001, 0.6999], abs=0.025)


def test_temperature_sharpens_and_flattens() -> None:
    logits = np.log(np.array([0.2, 0.8], np.float32))
    for temperature in (0.5, 2.0):
        expected = 0.2 ** (1 / temperature) / (0.2 ** (1 / temperature) + 0.8 ** (1 / temperature))
        _, probs = candidates(logits, SamplingParams(temperature=temperature))
        assert probs[0] == pytest.approx(expected, rel=1e-5)
    assert candidates(logits_of(0, 3e38), SamplingParams(temperature=1e-5))[1].tolist() == [0, 1]


def test_a_draw_depends_on_seed_and_position_only() -> None:
    logits = random_logits()
    first = Sampler(SamplingParams(seed=7), (1, 2))
    forward = [first.sample(logits, p, ()).token for p in range(30)]
    second = Sampler(SamplingParams(seed=7), (9,))
    backward = [second.sample(logits, p, (p,)).token for p in reversed(range(30))]
    assert forward == backward[::-1]
    assert forward != [choose(logits, seed=8, position=p) for p in range(30)]
    assert len(set(forward)) > 5


def test_no_seed_is_a_new_seed_that_can_be_read() -> None:
    first, second = (Sampler(SamplingParams(), ()) for _ in range(2))
    assert first.seed != second.seed
    logits = random_logits()
    again = Sampler(SamplingParams(seed=first.seed), ())
    assert [first.sample(logits, p, ()) for p in range(9)] == [
        again.sample(logits, p, ()) for p in range(9)
    ]


def test_frozen_draws() -> None:
    # Seeds that people have written down must keep their texts.
    found = [uniform(0, 0), uniform(1, 0), uniform(2**64 - 1, 10**6)]
    assert [value.hex() for value in found] == [
        "0x1.4e0dba5e9a32fp-1",
        "0x1.7906ac21d0e58p-2",
        "0x1.d832d8ffdeb30p-2",
    ]
    logits = (np.arange(50, dtype=np.float32) % 7) / 2
    sampler = Sampler(SamplingParams(seed=42, top_p=0.9, temperature=0.8), ())
    assert [sampler.sample(logits, p, ()).token for p in range(8)] == [19, 48, 26, 5, 34, 5, 12, 39]


def test_uniform_is_uniform_over_positions_and_seeds() -> None:
    for values in (
        [uniform(5, p) for p in range(8000)],
        [uniform(s, 5) for s in range(8000)],
    ):
        array = np.array(values)
        assert array.min() >= 0
        assert array.max() < 1
        assert np.histogram(array, 10, (0, 1))[0] == pytest.approx([800] * 10, abs=130)
        assert abs(np.corrcoef(array[:-1], array[1:])[0, 1]) < 0.05


def test_draw_never_takes_what_has_no_share() -> None:
    ids, probs = np.array([3, 4, 5, 6]), logits_of(0, 0.5, 0.5, 0)
    assert draw(ids, probs, 0.0) == 4
    assert draw(ids, probs, 0.4999) == 4
    assert draw(ids, probs, 0.5) == 5
    assert draw(ids, probs, 1 - 2.0**-53) == 5
    assert draw(ids, logits_of(0.1, 0.2, 0.3, 0.1), 1 - 2.0**-53) == 6
    tokens = {choose(logits_of(-math.inf, 1, -math.inf), seed=s) for s in range(50)}
    assert tokens == {1}


# Log-probabilities


def test_logprobs_are_of_the_models_distribution() -> None:
    logits = random_logits(500)
    expected = np.log(softmax(logits))
    sampler = Sampler(
        SamplingParams(temperature=0.3, top_k=5, logit_bias={400: 100.0}, logprobs=4), (1,)
    )
    sampled = sampler.sample(logits, 0, (2,))
    assert sampled.token == 400
    assert sampled.logprob == pytest.approx(expected[400], abs=1e-5)
    assert [i for i, _ in sampled.top] == np.argsort(-logits, kind="stable")[:4].tolist()
    assert [p for _, p in sampled.top] == pytest.approx(np.sort(expected)[::-1][:4], abs=1e-5)


def test_logprobs_counts() -> None:
    logits = logits_of(1, 2, 3)
    assert Sampler(SamplingParams(logprobs=0), ()).sample(logits, 0, ()).top == ()
    assert len(Sampler(SamplingParams(logprobs=10), ()).sample(logits, 0, ()).top) == 3
    unasked = Sampler(SamplingParams(temperature=0), ()).sample(logits, 0, ())
    assert (unasked.logprob, unasked.top) == (None, ())


# A model that went wrong


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize(
    ("logits", "words"),
    [
        ((1, math.nan, 2), "NaN at position 17"),
        ((1, math.inf, 2), "infinity at position 17"),
        ((-math.inf, -math.inf), "no possible token at position 17"),
    ],
)
def test_logits_without_a_distribution(
    logits: tuple[float, ...], words: str, temperature: float
) -> None:
    with pytest.raises(ColibriError, match=f"the model produced {words}"):
        choose(logits_of(*logits), temperature=temperature, position=17)


def test_a_penalty_that_overflows_is_noticed() -> None:
    with pytest.raises(ColibriError, match="infinity"):
        choose(logits_of(3e38, 1), repetition_penalty=0.01, prompt=(0,))

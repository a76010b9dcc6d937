"""SamplingParams: every value checked, the field and its range named."""

import math

import pytest

from colibri.errors import ConfigError
from colibri.sampling import SamplingParams

BAD = {
    "temperature": (math.nan, math.inf, -0.1, 2.1, 99, "1", None, True),
    "top_k": (-1, 1.5, "5", None, True),
    "top_p": (-0.01, 1.01, math.nan, "x", None),
    "min_p": (-0.01, 1.01, math.nan, None),
    "repetition_penalty": (0, -1, math.nan, math.inf, None),
    "presence_penalty": (-2.1, 2.1, math.nan, None),
    "frequency_penalty": (-2.1, 2.1, math.nan, None),
    "seed": (-1, 2**64, 1.0, "7", True),
    "max_tokens": (0, -1, 10**12, 2.0, "5", None, True),
    "logprobs": (-1, 1001, True, "2", 1.0),
    "stop": (5, [1], ["a", ""], "", None, {"a": 1}),
    "ignore_eos": (1, None, "yes"),
    "logit_bias": (None, [1], {"5": 1.0}, {-1: 1.0}, {5: math.nan}, {5: 101}, {5: "x"}, {1.0: 1}),
}


@pytest.mark.parametrize(("name", "value"), [(n, v) for n, values in BAD.items() for v in values])
def test_a_bad_value_is_named(name: str, value: object) -> None:
    with pytest.raises(ConfigError, match=name):
        SamplingParams(**{name: value})  # type: ignore[arg-type]


def test_good_values_at_the_edges() -> None:
    SamplingParams(temperature=0, top_k=0, top_p=0, min_p=1, seed=2**64 - 1, max_tokens=1)
    assert SamplingParams(stop="END").stop == ("END",)  # type: ignore[arg-type]
    assert SamplingParams(stop=["a", "b"]).stop == ("a", "b")  # type: ignore[arg-type]
    bias = {3: 1.5}
    params = SamplingParams(logit_bias=bias)
    bias[4] = 1.0
    assert dict(params.logit_bias) == {3: 1.5}


def test_a_models_own_defaults() -> None:
    config = {
        "do_sample": True,
        "temperature": 0.4,
        "top_p": 0.9,
        "top_k": None,
        "repetition_penalty": 1.1,
        "max_new_tokens": 99,
        "eos_token_id": [1, 2],
    }
    params = SamplingParams.from_generation_config(config, seed=5, top_p=None, max_tokens=7)
    assert params == SamplingParams(
        temperature=0.4, top_p=0.9, repetition_penalty=1.1, seed=5, max_tokens=7
    )
    assert SamplingParams.from_generation_config(config).max_tokens == 99
    assert SamplingParams.from_generation_config({}) == SamplingParams()


def test_do_sample_false_is_greedy_until_asked_otherwise() -> None:
    config = {"do_sample": False, "temperature": 0.6}
    assert SamplingParams.from_generation_config(config).temperature == 0
    assert SamplingParams.from_generation_config(config, temperature=0.3).temperature == 0.3
    assert SamplingParams.from_generation_config(config, temperature=0.0).temperature == 0


def test_whose_value_is_bad() -> None:
    with pytest.raises(ConfigError, match=r"generation_config\.json: top_p is 'x'"):
        SamplingParams.from_generation_config({"top_p": "x"})
    with pytest.raises(ConfigError, match=r"^top_p is 7"):
        SamplingParams.from_generation_config({"top_p": 0.5}, top_p=7)
    with pytest.raises(ConfigError, match="unknown sampling parameter: heat"):
        SamplingParams.from_generation_config({}, heat=1)

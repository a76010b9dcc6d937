"""What a caller may ask of sampling, checked once, when it is asked."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from colibri.errors import ConfigError
from colibri.grammar.structure import Structure


@dataclass(frozen=True)
class SamplingParams:
    """How tokens are chosen and when to stop. Every value is checked; ConfigError names field and
    range.

    temperature 0 takes the most likely token. top_k 0, top_p 1, min_p 0, penalties 1 / 0 / 0 are
    off. seed None: a new one each time. logprobs n: the chosen token's and the n best log-
    probabilities; prompt_logprobs n: of the prompt's tokens, which is all that max_tokens 0 gives.
    structure: what the answer (after its reasoning) must look like.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    seed: int | None = None
    max_tokens: int = 256
    stop: tuple[str, ...] = ()
    ignore_eos: bool = False
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    structure: Structure | None = None

    def __post_init__(self) -> None:
        for name, (low, high) in _RANGES.items():
            _check_number(name, getattr(self, name), low, high)
        for name, (least, most) in _INT_RANGES.items():
            _check_int(name, getattr(self, name), least, most, none=name in _MAY_BE_NONE)
        if self.max_tokens == 0 and self.prompt_logprobs is None:
            raise ConfigError("max_tokens is 0: that is for prompt_logprobs only; give 1 or more")
        if not isinstance(self.ignore_eos, bool):
            raise ConfigError(f"ignore_eos is {self.ignore_eos!r}; true or false expected")
        if not isinstance(self.structure, Structure | None):
            raise ConfigError(f"structure: {type(self.structure).__name__} is no Structure")
        object.__setattr__(self, "stop", _checked_stop(self.stop))
        object.__setattr__(self, "logit_bias", _checked_bias(self.logit_bias))

    @classmethod
    def from_generation_config(
        cls, config: Mapping[str, Any], **overrides: Any
    ) -> "SamplingParams":
        """A model's own defaults (its generation_config.json), then what the caller asks for; None
        is unasked.
        """
        known = {name: config.get(_MODEL_NAMES.get(name, name)) for name in _FROM_MODEL}
        if config.get("do_sample") is False:
            known["temperature"] = 0.0
        asked = {name: value for name, value in overrides.items() if value is not None}
        if unknown := set(asked) - {item.name for item in fields(cls)}:
            raise ConfigError(f"unknown sampling parameter: {', '.join(sorted(unknown))}")
        own = {name: value for name, value in known.items() if value is not None}
        try:
            defaults = cls(**own)
        except ConfigError as error:
            raise ConfigError(f"generation_config.json: {error}") from None
        return cls(**{**{name: getattr(defaults, name) for name in own}, **asked})


_RANGES = {
    "temperature": (0.0, 2.0),  # beyond that it is noise; OpenAI's API has the same
    "top_p": (0.0, 1.0),
    "min_p": (0.0, 1.0),
    "repetition_penalty": (0.01, 100.0),
    "presence_penalty": (-2.0, 2.0),
    "frequency_penalty": (-2.0, 2.0),
}
_INT_RANGES = {
    "top_k": (0, 2**31 - 1),
    "seed": (0, 2**64 - 1),
    "max_tokens": (0, 2**31 - 1),
    "logprobs": (0, 1000),
    "prompt_logprobs": (0, 1000),
}
_MAY_BE_NONE = ("seed", "logprobs", "prompt_logprobs")
_FROM_MODEL = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty", "max_tokens")
_MODEL_NAMES = {"max_tokens": "max_new_tokens"}


def _check_number(name: str, value: object, low: float, high: float) -> None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not low <= value <= high:  # type: ignore[operator]
        raise ConfigError(f"{name} is {value!r}; a number from {low:g} to {high:g} expected")


def _check_int(name: str, value: object, least: int, most: int, *, none: bool) -> None:
    if value is None and none:
        return
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ConfigError(f"{name} is {value!r}; a whole number from {least} to {most} expected")


def _checked_stop(stop: object) -> tuple[str, ...]:
    items = (stop,) if isinstance(stop, str) else stop
    if not isinstance(items, tuple | list) or not all(isinstance(s, str) and s for s in items):
        raise ConfigError(f"stop is {stop!r}; a list of strings, none of them empty, expected")
    return tuple(items)


def _checked_bias(bias: object) -> dict[int, float]:
    if not isinstance(bias, Mapping):
        raise ConfigError(f"logit_bias is {bias!r}; a mapping of token ids to numbers expected")
    for token, value in bias.items():
        _check_int("a token id of logit_bias", token, 0, 2**31 - 1, none=False)
        _check_number(f"logit_bias of token {token}", value, -100.0, 100.0)
    return dict(bias)

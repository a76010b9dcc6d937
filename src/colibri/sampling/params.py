"""What a caller may ask of sampling, checked once, when it is asked."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from colibri.errors import ConfigError
from colibri.grammar.structure import Structure


@dataclass(frozen=True)
class SamplingParams:
    """How the tokens of an answer are chosen and when it ends.

    Every value is checked when the object is made: a ConfigError names the field and what it may
    be. The same parameters, seed and prompt give the same answer on every machine.
    """

    temperature: float = 1.0
    """Above 1 answers vary more, below 1 less; 0 always takes the most likely token."""
    top_k: int = 0
    """Only the k most likely tokens are drawn from; 0: all."""
    top_p: float = 1.0
    """Only the most likely tokens that together have this probability are drawn from; 1: all."""
    min_p: float = 0.0
    """Only tokens with at least this share of the likeliest one's probability are drawn from; 0:
    all."""
    repetition_penalty: float = 1.0
    """Above 1 makes every token of the prompt and the answer less likely to come again; 1: off."""
    presence_penalty: float = 0.0
    """Is subtracted from the logit of each token that the answer already has; 0: off."""
    frequency_penalty: float = 0.0
    """The same times the number of its occurrences in the answer; 0: off."""
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    """Numbers that are added to the logits of tokens, by token id."""
    seed: int | None = None
    """Decides all that is drawn. None: a new one for each answer."""
    max_tokens: int = 256
    """The longest answer, in tokens. 0 is allowed with prompt_logprobs: nothing is answered."""
    stop: tuple[str, ...] = ()
    """Strings, or one string, at which the answer ends. The answer does not contain them."""
    ignore_eos: bool = False
    """Go on where the model would end its answer."""
    logprobs: int | None = None
    """The log-probability of each token of the answer, and those of that many of the most likely
    tokens at its place. None: no log-probabilities."""
    prompt_logprobs: int | None = None
    """The same for the tokens of the prompt."""
    structure: Structure | None = None
    """What the answer, after any reasoning, must look like."""

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
        """A model's own defaults (its generation_config.json), with what the caller asks for in
        their place; None is not asked for. Raises ConfigError for an unknown name or a bad value.
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


def range_of(name: str) -> str | None:
    """What a field that is a number may be, for documents; None for the other fields."""
    if name in _RANGES:
        return _numbers(*_RANGES[name])
    return _whole_numbers(*_INT_RANGES[name]) if name in _INT_RANGES else None


def _numbers(low: float, high: float) -> str:
    return f"a number from {low:g} to {high:g}"


def _whole_numbers(least: int, most: int) -> str:
    return f"a whole number from {least} to {most}"


def _check_number(name: str, value: object, low: float, high: float) -> None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not low <= value <= high:  # type: ignore[operator]
        raise ConfigError(f"{name} is {value!r}; {_numbers(low, high)} expected")


def _check_int(name: str, value: object, least: int, most: int, *, none: bool) -> None:
    if value is None and none:
        return
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ConfigError(f"{name} is {value!r}; {_whole_numbers(least, most)} expected")


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

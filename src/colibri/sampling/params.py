"""What a caller may ask of sampling, checked once, when it is asked."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from colibri.config.sampling import BIAS, NUMBER_BY_NAME, NUMBERS, TOKEN_ID, SamplingNumber
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
        for number in NUMBERS:
            _check(number, number.name, getattr(self, number.name))
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


_FROM_MODEL = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty", "max_tokens")
_MODEL_NAMES = {"max_tokens": "max_new_tokens"}


def range_of(name: str) -> str | None:
    """What a field that is a number may be, for documents; None for the other fields."""
    number = NUMBER_BY_NAME.get(name)
    return None if number is None else number.form


def _check(number: SamplingNumber, name: str, value: object) -> None:
    if not number.allows(value):
        raise ConfigError(f"{name} is {value!r}; {number.form} expected")


def _checked_stop(stop: object) -> tuple[str, ...]:
    items = (stop,) if isinstance(stop, str) else stop
    if not isinstance(items, tuple | list) or not all(isinstance(s, str) and s for s in items):
        raise ConfigError(f"stop is {stop!r}; a list of strings, none of them empty, expected")
    return tuple(items)


def _checked_bias(bias: object) -> dict[int, float]:
    if not isinstance(bias, Mapping):
        raise ConfigError(f"logit_bias is {bias!r}; a mapping of token ids to numbers expected")
    for token, value in bias.items():
        _check(TOKEN_ID, "a token id of logit_bias", token)
        _check(BIAS, f"logit_bias of token {token}", value)
    return dict(bias)

"""The parameters of sampling that are numbers: bounds and help, each once. SamplingParams, the
flags, the server's forms and the documents follow from it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

_MOST = 2**31 - 1


@dataclass(frozen=True)
class SamplingNumber:
    """help: of its flag; None where it has none. optional: None is one of its values."""

    name: str
    low: float
    high: float
    help: str | None = None
    whole: bool = False
    optional: bool = False

    @property
    def form(self) -> str:
        """What it may be, for people."""
        if self.whole:
            return f"a whole number from {self.low} to {self.high}"
        return f"a number from {self.low:g} to {self.high:g}"

    def allows(self, value: object) -> bool:
        if value is None:
            return self.optional
        if isinstance(value, bool) or not isinstance(value, int if self.whole else int | float):
            return False
        return self.low <= value <= self.high


_number = partial(SamplingNumber, whole=False)
_whole = partial(SamplingNumber, whole=True)

NUMBERS: tuple[SamplingNumber, ...] = (
    _whole("max_tokens", 0, _MOST, "Longest answer, in tokens; default: the model's, else 256."),
    # Beyond 2 it is noise; OpenAI's API has the same bound.
    _number(
        "temperature", 0, 2, "0 (always the likeliest token) to 2; default: the model's, else 1."
    ),
    _whole("top_k", 0, _MOST, "Sample from the k likeliest tokens; 0: all."),
    _number("top_p", 0, 1, "Sample from the likeliest tokens that hold this share."),
    _number("min_p", 0, 1, "Leave out tokens less likely than this share of the likeliest."),
    _number("repetition_penalty", 0.01, 100, "Above 1: tokens already there become less likely."),
    _number("presence_penalty", -2, 2, "Taken from the logit of a token already generated."),
    _number("frequency_penalty", -2, 2, "The same, once for each time it was generated."),
    _whole("seed", 0, 2**64 - 1, "The same seed gives the same text.", optional=True),
    _whole("logprobs", 0, 1000, optional=True),
    _whole("prompt_logprobs", 0, 1000, optional=True),
)
NUMBER_BY_NAME = {number.name: number for number in NUMBERS}
BIAS = _number("logit_bias", -100, 100)  # of each token
TOKEN_ID = _whole("token id", 0, _MOST)

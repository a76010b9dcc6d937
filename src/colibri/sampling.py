"""From logits to a token: parameters, processors, the draw. Pure functions; the same bits on every
machine.

Order: repetition penalty, presence and frequency penalties, logit bias, temperature, top-k,
top-p, min-p, as the field has it. Equal logits rank by the lower id. The repetition penalty sees
prompt and answer, the other two the answer only. Log-probabilities are of the model's own
distribution, before any of this.

Probabilities come from the native softmax and every sum runs in ascending order, so nothing
depends on NumPy's exp or on how many lanes a machine has. The random number of a token depends on
(seed, position) only.
"""

import math
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from colibri.errors import ColibriError, ConfigError
from colibri.kernels import ops

F32 = npt.NDArray[np.float32]
Ids = npt.NDArray[np.int64]

GREEDY_BELOW = 1e-5  # a temperature that leaves nothing to chance, and would overflow as a divisor
_FIRST_LOOK = 1024  # how many of the most likely tokens top-p sorts before it sorts them all


@dataclass(frozen=True)
class SamplingParams:
    """How tokens are chosen and when to stop. Every value is checked; ConfigError names field and
    range.

    temperature 0 takes the most likely token. top_k 0, top_p 1, min_p 0, penalties 1 / 0 / 0 are
    off. seed None: a new one each time. logprobs n: the chosen token's and the n best log-
    probabilities.
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

    def __post_init__(self) -> None:
        for name, (low, high) in _RANGES.items():
            _check_number(name, getattr(self, name), low, high)
        for name, (least, most) in _INT_RANGES.items():
            _check_int(name, getattr(self, name), least, most, none=name in ("seed", "logprobs"))
        if not isinstance(self.ignore_eos, bool):
            raise ConfigError(f"ignore_eos is {self.ignore_eos!r}; true or false expected")
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
    "temperature": (0.0, 100.0),
    "top_p": (0.0, 1.0),
    "min_p": (0.0, 1.0),
    "repetition_penalty": (0.01, 100.0),
    "presence_penalty": (-2.0, 2.0),
    "frequency_penalty": (-2.0, 2.0),
}
_INT_RANGES = {
    "top_k": (0, 2**31 - 1),
    "seed": (0, 2**64 - 1),
    "max_tokens": (1, 2**31 - 1),
    "logprobs": (0, 1000),
}
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


@dataclass(frozen=True)
class Sampled:
    """token; with params.logprobs its log-probability and the best (id, log-probability), likeliest
    first.
    """

    token: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()


class Sampler:
    """Chooses the tokens of one sequence. Holds nothing that changes: a call depends on its
    arguments only.
    """

    def __init__(self, params: SamplingParams, prompt_ids: Sequence[int]) -> None:
        self.params = params
        self.seed = secrets.randbits(64) if params.seed is None else params.seed
        self._prompt = np.unique(np.asarray(prompt_ids, np.int64))
        self._bias_ids = np.fromiter(params.logit_bias.keys(), np.int64)
        self._bias = np.fromiter(params.logit_bias.values(), np.float32)

    def sample(self, logits: F32, position: int, generated: Sequence[int]) -> Sampled:
        """logits [vocab_size], unchanged; position: of the token to choose, in the whole sequence;
        generated: the answer so far. ColibriError where the logits hold no distribution.
        """
        scores = self._processed(logits, generated)
        _check(scores, position)
        if self.params.temperature < GREEDY_BELOW:
            token = int(scores.argmax())
        else:
            token = draw(*candidates(scores, self.params), uniform(self.seed, position))
        return _with_logprobs(logits, token, self.params.logprobs or 0)

    def _processed(self, logits: F32, generated: Sequence[int]) -> F32:
        """The logits after penalties and bias: a copy if anything changes."""
        params = self.params
        scores = logits
        if params.repetition_penalty != 1.0:
            seen = np.union1d(self._prompt, np.asarray(generated, np.int64))
            scores = repetition_penalised(scores, seen, params.repetition_penalty)
        if generated and (params.presence_penalty or params.frequency_penalty):
            ids, counts = np.unique(np.asarray(generated, np.int64), return_counts=True)
            scores = scores.copy()
            scores[ids] -= np.float32(params.frequency_penalty) * counts.astype(np.float32)
            scores[ids] -= np.float32(params.presence_penalty)
        return self._biased(scores)

    def _biased(self, scores: F32) -> F32:
        if not len(self._bias_ids):
            return scores
        if (largest := int(self._bias_ids.max())) >= len(scores):
            raise ConfigError(
                f"logit_bias names token {largest}; the model's ids end at {len(scores) - 1}"
            )
        scores = scores.copy()
        scores[self._bias_ids] += self._bias
        return scores


def _check(scores: F32, position: int) -> None:
    top = scores.max()  # NaN if any is
    if not np.isfinite(top):
        words = {math.inf: "infinity", -math.inf: "no possible token"}.get(float(top), "NaN")
        raise ColibriError(
            f"the model produced {words} at position {position}: its files or a kernel are at "
            f"fault; check the files, or report it with the prompt"
        )


def repetition_penalised(scores: F32, seen: Ids, penalty: float) -> F32:
    """Positive scores of seen ids divided by the penalty, negative ones multiplied (CTRL, arXiv
    1909.05858).
    """
    scores = scores.copy()
    old = scores[seen]
    factor = np.float32(penalty)
    with np.errstate(over="ignore"):  # refused as infinity later
        scores[seen] = np.where(old > 0, old / factor, old * factor)
    return scores


def candidates(scores: F32, params: SamplingParams) -> tuple[Ids, F32]:
    """The ids that may be drawn, ascending, and their probabilities (below 1 in all after a cut)."""
    with np.errstate(over="ignore"):  # far below the maximum: -inf is right
        scaled = (scores - scores.max()) / np.float32(params.temperature)
    if 0 < params.top_k < len(scaled):
        ids = best(scaled, params.top_k)
    elif params.top_p < 1.0:
        return _min_p(*_top_p_of_all(scaled, params.top_p), params.min_p)
    else:
        return _min_p(np.arange(len(scaled)), _softmax(scaled), params.min_p)
    ids, probs = _cut_top_p(ids, _softmax(scaled[ids]), params.top_p)
    order = np.argsort(ids)
    return _min_p(ids[order], probs[order], params.min_p)


def best(scores: F32, count: int) -> Ids:
    """Ids of the `count` largest scores, largest first, equal ones by the lower id."""
    least = np.partition(scores, len(scores) - count)[len(scores) - count]
    above = np.flatnonzero(scores > least)
    equal = np.flatnonzero(scores == least)[: count - len(above)]
    ids = np.sort(np.concatenate((above, equal)))
    return ids[np.argsort(-scores[ids], kind="stable")]


def _softmax(scores: F32) -> F32:
    probs: F32 = ops.softmax(np.ascontiguousarray(scores)[None])[0]
    return probs


def _top_p_of_all(scaled: F32, top_p: float) -> tuple[Ids, F32]:
    """Few tokens hold most of the probability: look at those first, at all only if they do not
    suffice.
    """
    probs = _softmax(scaled)
    for count in (min(_FIRST_LOOK, len(scaled)), len(scaled)):
        ids = best(scaled, count)
        if np.cumsum(probs[ids], dtype=np.float64)[-1] >= top_p:
            break
    ids = np.sort(_cut_top_p(ids, probs[ids], top_p)[0])
    return ids, probs[ids]


def _cut_top_p(ids: Ids, probs: F32, top_p: float) -> tuple[Ids, F32]:
    """The fewest of the likeliest that reach top_p together, the one that crosses it included."""
    if top_p >= 1.0:
        return ids, probs
    total = np.cumsum(probs, dtype=np.float64)
    keep = max(1, int(np.searchsorted(total, top_p)) + 1)
    return ids[:keep], probs[:keep]


def _min_p(ids: Ids, probs: F32, min_p: float) -> tuple[Ids, F32]:
    if min_p <= 0.0:
        return ids, probs
    keep = probs >= np.float32(min_p) * probs.max()
    return ids[keep], probs[keep]


def draw(ids: Ids, probs: F32, chance: float) -> int:
    """The id in whose share of the total `chance` (from 0 to below 1) falls; never one of
    probability 0.
    """
    total = np.cumsum(probs, dtype=np.float64)
    index = np.searchsorted(total, chance * total[-1], side="right")
    last = np.searchsorted(total, total[-1])  # where the total is reached
    return int(ids[min(index, last)])


def uniform(seed: int, position: int) -> float:
    """A number from 0 to below 1, a multiple of 2**-53: SplitMix64 (Steele, Lea and Flood, OOPSLA
    2014), started at a hash of the seed and advanced to `position` in one step.
    """
    state = _mix64((seed + _GOLDEN) & _MASK)
    return (_mix64((state + (position + 1) * _GOLDEN) & _MASK) >> 11) * 2.0**-53


_MASK = 2**64 - 1
_GOLDEN = 0x9E3779B97F4A7C15


def _mix64(z: int) -> int:
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)


def _with_logprobs(logits: F32, token: int, count: int) -> Sampled:
    total = float(ops.log_sum_exp(np.ascontiguousarray(logits)[None])[0])
    ids = best(logits, min(count, len(logits))) if count else np.empty(0, np.int64)
    top = tuple((int(i), float(logits[i]) - total) for i in ids)
    return Sampled(token, float(logits[token]) - total, top)

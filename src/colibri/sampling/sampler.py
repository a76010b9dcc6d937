"""From logits to a token: parameters, processors, the draw. Pure functions; the same bits on every
machine.

Order: repetition penalty, presence and frequency penalties, logit bias, the mask of a structure,
temperature, top-k, top-p, min-p, as the field has it. Equal logits rank by the lower id. The
repetition penalty sees prompt and answer, the other two the answer only. Log-probabilities are of
the model's own distribution, before any of this.

Probabilities come from the native softmax and every sum runs in ascending order, so nothing
depends on NumPy's exp or on how many lanes a machine has. The random number of a token depends on
(seed, position) only.
"""

import math
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from colibri.errors import ColibriError, ConfigError
from colibri.grammar import Matcher
from colibri.kernels import ops
from colibri.kernels.distinct import distinct
from colibri.sampling.params import SamplingParams

F32 = npt.NDArray[np.float32]
Ids = npt.NDArray[np.int64]

GREEDY_BELOW = 1e-5  # a temperature that leaves nothing to chance, and would overflow as a divisor
_FIRST_LOOK = 1024  # how many of the most likely tokens top-p sorts before it sorts them all


@dataclass(frozen=True)
class Sampled:
    """The token; where params.logprobs is a number its log-probability, and that many best as (id,
    log-probability)."""

    token: int
    logprob: float | None = None
    top: tuple[tuple[int, float], ...] = ()


class Sampler:
    """Chooses the tokens of one sequence. A call depends on its arguments only, and on the matcher
    of a structure, which it moves on by the token.
    """

    def __init__(
        self, params: SamplingParams, prompt_ids: Sequence[int], matcher: Matcher | None = None
    ) -> None:
        self.params = params
        self.matcher = matcher
        self.seed = secrets.randbits(64) if params.seed is None else params.seed
        self._prompt = distinct(np.asarray(prompt_ids, np.int64))
        self._bias_ids = np.fromiter(params.logit_bias.keys(), np.int64)
        self._bias = np.fromiter(params.logit_bias.values(), np.float32)

    def sample(self, logits: F32, position: int, generated: Sequence[int]) -> Sampled:
        """logits [vocab_size], unchanged; position: of the token to choose, in the whole sequence;
        generated: the answer so far. ColibriError where the logits hold no distribution, or a
        structure cannot go on.
        """
        scores = self._processed(logits, generated)
        if self.matcher is not None:
            self.matcher.rollback(self.matcher.tokens - len(generated))  # of a step done again
            scores = self.matcher.mask(scores)
        token = int(scores.argmax())  # of the first NaN if there is one
        _check(float(scores[token]), position)
        if self.params.temperature >= GREEDY_BELOW:
            token = draw(*candidates(scores, self.params), uniform(self.seed, position))
        if self.matcher is not None:
            self.matcher.accept(token)
        if self.params.logprobs is None:
            return Sampled(token)
        return with_logprobs(logits, token, self.params.logprobs)

    @property
    def finished(self) -> bool:
        """The structure is whole: nothing may follow."""
        return self.matcher is not None and self.matcher.finished

    def _processed(self, logits: F32, generated: Sequence[int]) -> F32:
        """The logits after penalties and bias: a copy if anything changes."""
        params = self.params
        scores = logits
        if params.repetition_penalty != 1.0:
            seen = distinct(np.concatenate([self._prompt, np.asarray(generated, np.int64)]))
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
        scores = scores.copy()
        scores[self._bias_ids] += self._bias
        return scores


def check_bias(params: SamplingParams, vocab_size: int) -> None:
    """Before a prompt is read in vain."""
    if (largest := max(params.logit_bias, default=0)) >= vocab_size:
        raise ConfigError(
            f"logit_bias names token {largest}; the model's ids end at {vocab_size - 1}",
            f"logit_bias.{largest}",
        )


def _check(top: float, position: int) -> None:
    if not math.isfinite(top):
        words = {math.inf: "infinity", -math.inf: "no possible token"}.get(top, "NaN")
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
    """The ids that may be drawn, ascending, and their probabilities (no more 1 in all if cut)."""
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
    ids = np.arange(len(scores), dtype=np.uint64)
    if count < len(scores):
        least = np.partition(scores, len(scores) - count)[len(scores) - count]
        ids = ids[scores >= least]
        scores = scores[scores >= least]
    keys = (_descending(scores) << np.uint64(32)) | ids
    keys.sort()  # no two are equal, so the order is one
    return (keys[:count] & np.uint64(0xFFFFFFFF)).astype(np.int64)


def _descending(scores: F32) -> npt.NDArray[np.uint64]:
    """Whole numbers in the reverse order of the floats, whose bits are sign and magnitude."""
    bits = (scores + np.float32(0)).view(np.uint32)  # -0 becomes 0
    ordered = np.where(bits >> 31, bits, bits ^ np.uint32(0x7FFFFFFF))
    return ordered.astype(np.uint64)


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


def with_logprobs(logits: F32, token: int, count: int) -> Sampled:
    total = float(ops.log_sum_exp(np.ascontiguousarray(logits)[None])[0])
    ids = best(logits, min(count, len(logits))) if count else np.empty(0, np.int64)
    top = tuple((int(i), float(logits[i]) - total) for i in ids)
    return Sampled(token, float(logits[token]) - total, top)

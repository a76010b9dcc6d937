"""Closed answers: how likely each of several options is to follow a context."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from colibri.answer import awaited
from colibri.engine.request import BranchLogprobs, Event, Failed, Finished, PrefillProgress, Request
from colibri.errors import Cancelled, ConfigError
from colibri.llm.leadin import BEGINNING, LeadIn, Place
from colibri.words import count

Normalize = Literal["mean", "sum"]
FEWEST, MOST = 2, 64  # options
_NOWHERE = "the model's own answer names none of the options: they were compared at its beginning"
LIKELY = 0.5  # that one of the options follows
_TAIL = 2048  # characters of a long context that are tokenised once an option


@dataclass(frozen=True)
class Choice:
    """One option of a closed question, scored."""

    option: str
    """The option as it was given."""
    p: float
    """Its probability among the options, whose probabilities add up to 1."""
    logprob: float
    """The sum of its tokens' log-probabilities, in nats."""
    mean_logprob: float
    """The mean of its tokens' log-probabilities, in nats."""
    tokens: int
    """How many tokens it has."""


@dataclass(frozen=True)
class Scores:
    """The answer to a closed question, as `score_choices()` gives it."""

    choices: tuple[Choice, ...]
    """The options in the order in which they were given."""
    entropy: float
    """How undecided the model is, from 0 (sure of one option) to 1 (all options alike)."""
    prompt_tokens: int
    """Tokens of the context, as far as all options share it."""
    cached_tokens: int
    """Those of them that did not have to be computed, because an earlier request left their
    state."""
    read_tokens: int
    """Tokens that were computed for this answer."""
    warnings: tuple[str, ...] = ()
    """Sentences on what makes the result doubtful."""
    lead_in: str = ""
    """How the model's own answer begins that the options were compared in, up to the option."""
    generated_tokens: int = 0
    """Tokens of its own answer that the model wrote to find that place."""

    @property
    def best(self) -> Choice:
        """The likeliest option; of several that are equally likely, the first."""
        return max(self.choices, key=lambda choice: choice.p)


class Scoring:
    """A question on its way. Whoever gave the request a sink of his own pushes its events here."""

    def __init__(
        self,
        request: Request,
        options: Sequence[str],
        normalize: Normalize,
        begins: Sequence[int] = (0,),
        lead_in: LeadIn | None = None,
    ) -> None:
        """The request's branches are the options at each place of the lead-in; begins: where in
        the branches of a place the options begin."""
        self.request = request
        self.finished = False
        self._options = options
        self._normalize = normalize
        self._begins, self._lead_in = begins, lead_in

    def push(self, event: Event) -> Scores | PrefillProgress | None:
        """The scores once they are there. Raises the error that ended the request."""
        match event:
            case PrefillProgress():
                return event
            case BranchLogprobs():
                self.finished = True
                return self._scores(event.branches)
            case Failed():
                raise event.error
            case Finished() if not self.finished:
                raise Cancelled("the question was cancelled")
        return None

    def wait(self) -> Scores:
        return awaited(self)

    def _scores(self, branches: Sequence[Sequence[float]]) -> Scores:
        request = self.request
        place, ids, found = self._likeliest(branches)
        sums = [math.fsum(logprobs) for logprobs in found]
        lengths = [len(logprobs) for logprobs in found]
        means = [total / n for total, n in zip(sums, lengths, strict=True)]
        apart = disjoint(ids, sums)
        p = softmax(means if self._normalize == "mean" else apart)
        choices = map(Choice, self._options, p, sums, means, lengths)
        cached = request.cached_tokens
        read = len(request.prompt_ids) - cached + rows_of(request.branches)
        generated = 0
        if (lead_in := self._lead_in) is not None:  # what was computed for it was not there before
            cached = min(cached, lead_in.request.cached_tokens)
            read += lead_in.read_tokens
            generated = lead_in.tokens
        return Scores(
            choices=tuple(choices),
            entropy=entropy(p),
            prompt_tokens=len(request.prompt_ids),
            cached_tokens=cached,
            read_tokens=read,
            generated_tokens=generated,
            warnings=(
                *(() if place.found else (_NOWHERE,)),
                *_warnings(self._options, apart, means, lengths),
            ),
            lead_in=place.lead_in,
        )

    def _likeliest(
        self, logprobs: Sequence[Sequence[float]]
    ) -> tuple[Place, list[Sequence[int]], list[Sequence[float]]]:
        """The last place where one of the options, whichever, is likely, else that where it is
        likeliest; and the options there: their tokens and the log-probabilities of these."""
        n, branches = len(self._options), self.request.branches
        rows = [
            [logprobs[at * n + i][begin:] for i in range(n)]
            for at, begin in enumerate(self._begins)
        ]
        sums = [log_sum_exp([*map(math.fsum, row)]) for row in rows]
        likely = [at for at, total in enumerate(sums) if total > math.log(LIKELY)]
        best = likely[-1] if likely else sums.index(max(sums))
        ids = [branches[best * n + i][self._begins[best] :] for i in range(n)]
        return places_of(self._lead_in)[best], ids, rows[best]


def places_of(lead_in: LeadIn | None) -> Sequence[Place]:
    """Where the options are compared: without a lead-in right at the beginning."""
    return (BEGINNING,) if lead_in is None else lead_in.places


def check_options(options: Sequence[str], normalize: str = "sum") -> None:
    """Raises ConfigError for what cannot be scored."""
    if normalize not in ("mean", "sum"):
        raise ConfigError(f"normalize is {normalize!r}; mean or sum expected")
    if isinstance(options, str) or not all(isinstance(option, str) for option in options):
        raise ConfigError("options must be a list of texts")
    if not FEWEST <= len(options) <= MOST:
        raise ConfigError(f"{count(len(options), 'option')}; {FEWEST} to {MOST} expected")
    if "" in options:
        raise ConfigError("an option is empty")
    if len(set(options)) < len(options):
        twice = next(o for i, o in enumerate(options) if o in options[:i])
        raise ConfigError(f"the option {twice!r} is there twice")


def joint_ids(
    encode: Callable[[str], list[int]], lead: list[int], context: str, options: Sequence[str]
) -> tuple[list[int], list[list[int]]]:
    """The tokens that the context shares with all of context + option, and what each option adds.

    encode: without special tokens; lead: those that stand before the context.
    Tokenised together: where an option merges with the end of the context, the merged token is the
    option's, and what it replaces is every option's. ConfigError where nothing is left to share.
    """
    alone = encode(context)
    cut, kept = _tail(encode, context, alone)
    joint = [alone[:kept] + encode(context[cut:] + option) for option in options]
    shared = min(common(alone, ids) for ids in joint)
    if not lead and shared == 0:
        raise ConfigError("the context is empty, or one token with the options: give a longer one")
    for at, (option, ids) in enumerate(zip(options, joint, strict=True)):
        if len(ids) <= shared:
            raise ConfigError(
                f"the option {option!r} adds no token to the context", f"options[{at}]"
            )
    return lead + alone[:shared], [ids[shared:] for ids in joint]


def joint_branches(
    encode: Callable[[str], list[int]],
    lead: list[int],
    context: str,
    options: Sequence[str],
    places: Sequence[Place],
) -> tuple[list[int], list[list[int]], list[int]]:
    """As joint_ids, for the options at several places in the answer: what all share, what each
    place's options add, and where in these additions of a place the options begin."""
    found = [
        joint_ids(encode, lead, context + place.lead_in, [*map(place.option, options)])
        for place in places
    ]
    shared = min(common(found[0][0], ids) for ids, _ in found)
    branches = [ids[shared:] + branch for ids, added in found for branch in added]
    return found[0][0][:shared], branches, [len(ids) - shared for ids, _ in found]


def _tail(encode: Callable[[str], list[int]], context: str, alone: list[int]) -> tuple[int, int]:
    """Where a long context may be cut, in characters and tokens, so that only the rest is tokenised
    once an option: at a blank where that gives the same tokens."""
    cut = context.rfind(" ", 0, len(context) - _TAIL) if len(context) > 2 * _TAIL else 0
    if cut > 0:
        tail = encode(context[cut:])
        kept = len(alone) - len(tail)
        if alone[kept:] == tail and encode(context[:cut]) == alone[:kept]:
            return cut, kept
    return 0, 0


def common(a: Sequence[int], b: Sequence[int]) -> int:
    """How many tokens are the same from the beginning on."""
    n = 0
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        n += 1
    return n


def rows_of(branches: Sequence[Sequence[int]]) -> int:
    """Tokens that the branches take to read: what several begin with once, and no last ones."""
    return len({tuple(b[:n]) for b in branches for n in range(1, len(b))})


def log_sum_exp(scores: Sequence[float]) -> float:
    most = max(scores)
    return most + math.log(math.fsum(math.exp(score - most) for score in scores))


def disjoint(branches: Sequence[Sequence[int]], logprobs: Sequence[float]) -> list[float]:
    """The log-probability of each text and of none that goes on from it to another: "Mexico" where
    "Mexico City" is another option is likelier than that, whatever the model thinks.

    branches, logprobs: the tokens of each text from a common place on, and the sums of these.
    """
    texts = [tuple(branch) for branch in branches]
    found = []
    for text, logprob in zip(texts, logprobs, strict=True):
        longer = [i for i, t in enumerate(texts) if len(t) > len(text) and _begins(t, text)]
        nearest = [
            i for i in longer if not any(i != j and _begins(texts[i], texts[j]) for j in longer)
        ]
        rest = 1.0 - math.fsum(math.exp(logprobs[i] - logprob) for i in nearest)
        found.append(logprob + math.log(max(rest, 1e-9)))
    return found


def _begins(text: tuple[int, ...], beginning: tuple[int, ...]) -> bool:
    return text[: len(beginning)] == beginning


def softmax(scores: Sequence[float]) -> list[float]:
    most = max(scores)
    weights = [math.exp(score - most) for score in scores]
    total = math.fsum(weights)
    return [weight / total for weight in weights]


def entropy(p: Sequence[float]) -> float:
    """From 0 to 1, which is all alike."""
    nats = -math.fsum(x * math.log(x) for x in p if x > 0)
    return min(1.0, max(0.0, nats / math.log(len(p))))


def _warnings(
    options: Sequence[str], sums: Sequence[float], means: Sequence[float], lengths: Sequence[int]
) -> tuple[str, ...]:
    by_sum, by_mean = (max(range(len(s)), key=lambda i: s[i]) for s in (sums, means))
    if by_sum == by_mean:
        return ()
    return (
        f"the options have {min(lengths)} to {max(lengths)} tokens, and normalize decides: by "
        f"mean it is {options[by_mean]!r}, by sum {options[by_sum]!r}",
    )

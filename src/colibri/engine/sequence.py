"""A request that the engine has taken in: its tokens, state and sampler."""

import math
import time
from collections.abc import Iterable
from collections.abc import Sequence as Ids

import numpy as np
from numpy.typing import NDArray

from colibri.engine.branches import BranchWalk
from colibri.engine.request import PrefillProgress, PromptLogprobs, Request, Token
from colibri.engine.status import RequestStatus
from colibri.errors import ColibriError
from colibri.kvcache.held import Held
from colibri.sampling import Sampler, with_logprobs

F32 = NDArray[np.float32]


class Sequence:
    """limit: tokens of prompt and answer together. The state holds the first ones of the prompt
    already, where another sequence began alike."""

    def __init__(self, request: Request, held: Held, sampler: Sampler, limit: int) -> None:
        self.request = request
        self.held = held
        self.limit = limit
        self.sampler = sampler
        self.generated: list[int] = []
        self.prefilled = request.cached_tokens = len(held)
        self.walk = BranchWalk(request.branches) if request.branches else None
        self.marks: set[int] = set()  # lengths of the prompt at which the state is to be kept
        self.served = 0  # the step of its last turn
        self.started = time.perf_counter()
        self._scored: list[Token] = []  # of this step
        self._asked = request.params.prompt_logprobs
        self._take_known_logprobs()

    @property
    def prompt(self) -> Ids[int]:
        return self.request.prompt_ids

    @property
    def in_prefill(self) -> bool:
        return self.prefilled < len(self.prompt)

    @property
    def reading(self) -> bool:
        """Its next step is a chunk of given tokens rather than one of the answer."""
        return self.in_prefill or self.walk is not None

    @property
    def length(self) -> int:
        return len(self.prompt) + len(self.generated)

    def next_ids(self, limit: int) -> Ids[int]:
        """What the next step computes: a chunk of the prompt or of a branch, or the last token."""
        if self.in_prefill:
            return self.prompt[self.prefilled : self.prefilled + limit]
        if self.walk is not None:
            return self.walk.next_ids(self.held.state, limit)
        return self.generated[-1:]

    def marks_before(self, count: int) -> list[int]:
        """Inside the next so many tokens of the prompt."""
        stop = self.prefilled + count
        return sorted(n for n in self.marks if self.prefilled < n < stop)

    def wanted(self, count: int) -> Iterable[int]:
        """Of the step's rows, those whose logits are needed."""
        self._scored = []
        if not self.in_prefill or self._asked is not None:
            return range(count)
        return [count - 1] if self.prefilled + count == len(self.prompt) else []

    def score(self, row: int, logits: F32) -> bool:
        """Take the logits of a wanted row; True: the token of the answer that follows is to be
        chosen by them. Raises ColibriError where they hold no distribution."""
        if not self.in_prefill:
            if self.walk is None:
                return True
            self.walk.score(row, logits)
            return False
        following = self.prefilled + row + 1
        if following == len(self.prompt):
            if self.walk is not None:
                self.walk.begin(logits, self.held.state)
            return self.walk is None and self.request.params.max_tokens > 0
        self._scored.append(_scored(self.prompt[following], logits, self._asked or 0))
        return False

    def advance(self, ids: Ids[int], marks: Ids[int]) -> None:
        """The step's rows are in the state, and wanted ones scored."""
        if not self.in_prefill and self.walk is not None:
            self.walk.done(self.held.state)
            return
        self.held.extend(ids)
        for position in marks:
            self.held.keep(position)
        if self.in_prefill:
            self.prefilled += len(ids)
            self._send_scored()
            if self.marks and (self.in_prefill or self.walk is not None):
                self.held.keep(self.prefilled)  # a chunk's end; where the branches begin

    def _take_known_logprobs(self) -> None:
        """Of what is in the state, whose rows are not computed again."""
        held, asked = self.held, self._asked
        if asked is None:
            return
        held.best = min(held.best, asked) if len(held) else asked
        known = held.logprobs[: len(held)]
        if known:
            tokens = tuple(Token(t.id, t.logprob, t.top[:asked]) for t in known)
            self.request.send(PromptLogprobs(tokens))

    def _send_scored(self) -> None:
        if self._scored:
            self.held.logprobs += self._scored
            self.request.send(PromptLogprobs(tuple(self._scored)))
            self._scored = []

    def ends_with(self, token: int) -> bool:
        """Whether the answer is whole with this token, its newest."""
        request = self.request
        if token in request.eos_ids and not request.params.ignore_eos:
            return True
        stopped = request.watch is not None and request.watch(token)
        return stopped or self.sampler.finished

    def status(self) -> RequestStatus:
        """From any thread."""
        return RequestStatus(
            prompt_tokens=len(self.prompt),
            cached_tokens=self.request.cached_tokens,
            read_tokens=self.prefilled,
            new_tokens=len(self.generated),
            seconds=time.perf_counter() - self.started,
        )

    def report(self, chunk: int, layer: int, layers: int, bytes_read: int) -> None:
        total, seconds = len(self.prompt), time.perf_counter() - self.started
        done = self.prefilled + chunk * layer / layers
        computed = done - self.request.cached_tokens
        self.request.send(
            PrefillProgress(
                tokens_done=int(done),
                tokens_total=total,
                layer=layer,
                layers=layers,
                bytes_read=bytes_read,
                seconds=seconds,
                eta_seconds=seconds * (total - done) / computed if computed > 0 else None,
            )
        )


def _scored(token: int, logits: F32, best: int) -> Token:
    scored = with_logprobs(logits, token, best)
    if scored.logprob is None or not math.isfinite(scored.logprob):
        raise ColibriError(
            f"the model gives token {token} of the prompt no finite log-probability: its files or "
            "a kernel are at fault; check the files, or report it with the prompt"
        )
    return Token(token, scored.logprob, scored.top)

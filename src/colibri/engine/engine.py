"""The engine: takes requests in, walks prompts through the model in chunks, decodes all running
sequences together.

One thread calls it. A step either advances one prompt by a chunk or every running sequence by a
token, in turn; an answer does not depend on which. Each running sequence owns key/value room for
its prompt and longest answer; together they never hold more than the context that the plan
reserved, nor are they more than the rows that it has working memory for.
"""

import operator
import time
from collections import deque
from collections.abc import Callable, Iterator
from collections.abc import Sequence as Ids
from functools import partial

import numpy as np
from numpy.typing import NDArray

from colibri.engine.check import ExactCheck
from colibri.engine.request import Call, Finished, FinishReason, Request, Token, Watch
from colibri.engine.sequence import Sequence
from colibri.engine.stats import EngineStats
from colibri.errors import Cancelled, CapacityError, ColibriError, ConfigError
from colibri.kvcache.pool import StatePool
from colibri.kvcache.sequence import SequenceState
from colibri.layers.clock import NO_CLOCK, Clock
from colibri.layers.decoder import Decoder
from colibri.layers.step import Step
from colibri.sampling import Sampler, check_bias

F32 = NDArray[np.float32]


class Engine:
    def __init__(
        self,
        model: Decoder,
        *,
        context: int,
        prefill_chunk: int,
        logit_rows: int,
        watch: Watch,
        bytes_read: Callable[[], int] = lambda: 0,
        after_step: Callable[[int], None] = lambda tokens: None,
        clock: Clock = NO_CLOCK,
        check: ExactCheck | None = None,
        turn_ended: Callable[[bool], None] = lambda busy: None,
        sequence_positions: int = 0,
    ) -> None:
        """turn_ended: called between two steps once an answer has ended, with whether there is
        more to do. sequence_positions: what a sequence's state takes whatever its length."""
        self.model = model
        self.context = context
        self.prefill_chunk = prefill_chunk
        self.stats = EngineStats()
        self._logit_rows = logit_rows
        self._watch = watch
        self._bytes_read = bytes_read
        self._after_step = after_step
        self._clock = clock
        self._check = check
        self._waiting: deque[Request | Call] = deque()
        self._running: list[Sequence] = []
        self._states = StatePool(model.new_state, context, sequence_positions)
        self._prefill_next = True
        self._turn_ended = turn_ended
        self._any_left = False

    @property
    def busy(self) -> bool:
        return bool(self._waiting or self._running)

    def submit(self, work: Request | Call) -> None:
        self._waiting.append(work)

    def stop(self) -> None:
        """From any thread, before the end: the step in hand is broken off within a layer."""
        self._watch.stopping = True

    def step(self) -> None:
        self._drop_cancelled()
        self._admit()
        prefilling = [s for s in self._running if s.in_prefill][:1]
        decoding = [s for s in self._running if not s.in_prefill]
        if prefilling and (self._prefill_next or not decoding):
            self._advance(prefilling)
        elif decoding:
            self._advance(decoding)
        self._prefill_next = not self._prefill_next
        if self._any_left:
            self._any_left = False
            self._turn_ended(self.busy)

    def fail_all(self, error: BaseException) -> None:
        for work in [*self._waiting, *(s.request for s in self._running)]:
            work.fail(error)
        self._waiting.clear()
        for sequence in list(self._running):
            self._leave(sequence)

    def forward(self, token_ids: Ids[int]) -> F32:
        """Logits of every position [tokens, vocab], from nothing and leaving nothing."""
        check_ids(token_ids, self.model.vocab_size, self.context)
        state = self._states.take(len(token_ids))
        try:
            return self._forward(state, token_ids)
        finally:
            self._states.give_back(state)

    def _forward(self, state: SequenceState, token_ids: Ids[int]) -> F32:
        logits = np.empty((len(token_ids), self.model.vocab_size), np.float32)
        for start in range(0, len(token_ids), self.prefill_chunk):
            chunk = token_ids[start : start + self.prefill_chunk]
            hidden = self.model.forward(Step.of([(state, chunk)]))
            for row, some in self._logits(hidden):
                logits[start + row : start + row + len(some)] = some
        return logits

    def _logits(self, hidden: F32) -> Iterator[tuple[int, F32]]:
        """(first row, logits [rows, vocab]) of a few rows at a time: those of all could be large
        beside a budget."""
        for row in range(0, len(hidden), self._logit_rows):
            yield row, self.model.logits(hidden[row : row + self._logit_rows])

    def _drop_cancelled(self) -> None:
        for work in [w for w in self._waiting if isinstance(w, Request) and w.cancelled]:
            self._waiting.remove(work)
            work.events.put(Finished("cancelled"))
        for sequence in [s for s in self._running if s.request.cancelled]:
            self._finish(sequence, "cancelled")

    def _admit(self) -> None:
        """In the order in which they came, as far as there is room."""
        while self._waiting and self._has_room(self._waiting[0]):
            work = self._waiting.popleft()
            if isinstance(work, Call):
                work.run()
            else:
                self._start(work)

    def _has_room(self, work: Request | Call) -> bool:
        if not self._running:
            return True
        tokens = work.tokens if isinstance(work, Call) else self._limit(work)
        rows = max(self.prefill_chunk, self._logit_rows)
        return self._states.has_room(tokens) and len(self._running) < rows

    def _limit(self, request: Request) -> int:
        return min(len(request.prompt_ids) + request.params.max_tokens, self.context)

    def _start(self, request: Request) -> None:
        limit = self._limit(request)
        try:
            check_ids(request.prompt_ids, self.model.vocab_size, self.context - 1)
            check_bias(request.params, self.model.vocab_size)
            sampler = Sampler(request.params, request.prompt_ids, request.matcher)
            state = self._states.take(limit)
            self._running.append(Sequence(request, state, sampler, limit))
        except (ColibriError, MemoryError) as error:
            request.fail(error)

    def _advance(self, sequences: list[Sequence]) -> None:
        """One step of these sequences; a failed read, or numbers that are none, end only those
        that have them."""
        checkpoints = [s.state.checkpoint() for s in sequences]
        try:
            self._compute(sequences)
        except ColibriError as error:
            for sequence, checkpoint in zip(sequences, checkpoints, strict=True):
                sequence.state.restore(checkpoint)
            if len(sequences) > 1:
                for sequence in sequences:
                    self._advance([sequence])
            elif self._watch.stopping:
                return  # fail_all() follows
            elif isinstance(error, Cancelled):
                self._finish(sequences[0], "cancelled")
            else:
                self._fail(sequences[0], error)

    def _compute(self, sequences: list[Sequence]) -> None:
        started, unchecked = time.perf_counter(), self._check_seconds
        parts = [(s.state, s.next_ids(self.prefill_chunk)) for s in sequences]
        prefill = sequences[0].in_prefill
        self._watch.requests = [s.request for s in sequences]
        self._clock.begin(prefill, sum(len(ids) for _, ids in parts))
        try:
            before_layer: Callable[[int], None] = self._check_cancelled
            exact = None
            if self._check is not None and not prefill:
                exact = self._check.before(parts, before_layer)
            if prefill:
                before_layer = partial(self._report, sequences[0], len(parts[0][1]))
            step = Step.of(parts, before_layer, self._clock)
            hidden = self.model.forward(step)
            last = [rows.stop - 1 for rows in step.sequences]
            for sequence, (_, ids) in zip(sequences, parts, strict=True):
                if prefill:
                    sequence.prefilled += len(ids)
            if not sequences[0].in_prefill:
                self._choose(sequences, hidden[last], exact)
        finally:
            self._watch.requests = ()
            self._clock.end()
        seconds = time.perf_counter() - started - (self._check_seconds - unchecked)
        self.stats.add(prefill, len(step.token_ids), seconds)
        self._after_step(len(step.token_ids))

    @property
    def _check_seconds(self) -> float:
        return 0.0 if self._check is None else self._check.cost.seconds

    def _check_cancelled(self, layer: int) -> None:
        if self._watch.cancelled():
            raise Cancelled("the request was cancelled")

    def _report(self, first: Sequence, chunk: int, layer: int) -> None:
        self._check_cancelled(layer)
        first.report(chunk, layer, len(self.model.layers), self._bytes_read())

    def _choose(self, sequences: list[Sequence], hidden: F32, exact: F32 | None) -> None:
        """The next token of every sequence, from its row of hidden states. exact: those by exact
        routing, where they are to be compared."""
        self._clock.enter("head", -1)
        for row, logits in self._logits(hidden):
            self._clock.enter("sampling")
            if self._check is not None and exact is not None:
                self._check.compare(exact[row : row + len(logits)], logits)
            for sequence, scores in zip(sequences[row:], logits, strict=False):
                self._sample(sequence, scores)
            self._clock.enter("head", -1)

    def _sample(self, sequence: Sequence, logits: F32) -> None:
        request = sequence.request
        try:
            sampled = sequence.sampler.sample(logits, sequence.length, sequence.generated)
        except ColibriError as error:
            self._fail(sequence, error)
            return
        sequence.generated.append(sampled.token)
        request.events.put(Token(sampled.token, sampled.logprob, sampled.top))
        ends = sampled.token in request.eos_ids and not request.params.ignore_eos
        if ends or sequence.sampler.finished:
            self._finish(sequence, "stop")
        elif sequence.length >= sequence.limit:
            self._finish(sequence, "length")

    def _finish(self, sequence: Sequence, reason: FinishReason) -> None:
        self._leave(sequence)
        sequence.request.events.put(Finished(reason))

    def _fail(self, sequence: Sequence, error: BaseException) -> None:
        self._leave(sequence)
        sequence.request.fail(error)

    def _leave(self, sequence: Sequence) -> None:
        self._running.remove(sequence)
        self._states.give_back(sequence.state)
        self._any_left = True


def whole_numbers(token_ids: Ids[int]) -> list[int]:
    """Token ids as Python's own integers."""
    try:
        return [operator.index(i) for i in token_ids]
    except TypeError:
        raise ColibriError("a prompt is text, or a sequence of whole numbers (token ids)") from None


def check_ids(token_ids: Ids[int], vocab_size: int, limit: int) -> None:
    """Refuse an empty prompt, ids that are not the model's, and more tokens than `limit`."""
    if len(token_ids) == 0:
        raise ConfigError("the prompt is empty: give at least one token")
    if len(token_ids) > limit:
        raise CapacityError(
            f"the prompt has {len(token_ids)} tokens, and the context leaves room for {limit}: "
            "shorten it, or raise --context"
        )
    low, high = min(token_ids), max(token_ids)
    if low < 0 or high >= vocab_size:
        raise ConfigError(
            f"token id {low if low < 0 else high} is outside the model's vocabulary "
            f"0..{vocab_size - 1}"
        )

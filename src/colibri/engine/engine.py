"""The engine: takes requests in, walks prompts through the model in chunks, decodes all running
sequences together.

One thread calls it. A step either advances one prompt by a chunk or every running sequence by a
token, in turn; an answer does not depend on which. Each running sequence owns key/value room for
its prompt and longest answer, and together they never hold more than the context that the plan
reserved.
"""

import time
from collections import deque
from collections.abc import Callable
from collections.abc import Sequence as Ids
from functools import partial

import numpy as np
from numpy.typing import NDArray

from colibri.engine.request import Failed, Finished, FinishReason, Request, Token
from colibri.engine.sequence import Sequence
from colibri.engine.stats import EngineStats
from colibri.errors import Cancelled, CapacityError, ColibriError, ConfigError, ReadError
from colibri.layers.clock import NO_CLOCK, Clock
from colibri.layers.decoder import Decoder
from colibri.layers.step import Step

F32 = NDArray[np.float32]


class Engine:
    def __init__(
        self,
        model: Decoder,
        *,
        context: int,
        prefill_chunk: int,
        bytes_read: Callable[[], int] = lambda: 0,
        clock: Clock = NO_CLOCK,
    ) -> None:
        self.model = model
        self.context = context
        self.prefill_chunk = prefill_chunk
        self.stats = EngineStats()
        self._bytes_read = bytes_read
        self._clock = clock
        self._waiting: deque[Request] = deque()
        self._running: list[Sequence] = []
        self._stepping: list[Sequence] = []
        self._prefill_next = True

    @property
    def busy(self) -> bool:
        return bool(self._waiting or self._running)

    def submit(self, request: Request) -> None:
        self._waiting.append(request)

    def step_cancelled(self) -> bool:
        """Nobody waits for the step in hand any more: the executor asks this while it waits for
        the disk."""
        return bool(self._stepping) and all(s.request.cancelled for s in self._stepping)

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

    def fail_all(self, error: BaseException) -> None:
        for request in [*self._waiting, *(s.request for s in self._running)]:
            request.events.put(Failed(error))
        self._waiting.clear()
        self._running.clear()

    def forward(self, token_ids: Ids[int]) -> F32:
        """Logits of every position [tokens, vocab], from nothing and leaving nothing."""
        check_ids(token_ids, self.model.vocab_size, self.context)
        state = self.model.new_state(len(token_ids))
        logits = np.empty((len(token_ids), self.model.vocab_size), np.float32)
        for start in range(0, len(token_ids), self.prefill_chunk):
            chunk = token_ids[start : start + self.prefill_chunk]
            hidden = self.model.forward(Step.of([(state, chunk)]))
            logits[start : start + len(chunk)] = self.model.logits(hidden)
        return logits

    def _drop_cancelled(self) -> None:
        for request in [r for r in self._waiting if r.cancelled]:
            self._waiting.remove(request)
            request.events.put(Finished("cancelled"))
        for sequence in [s for s in self._running if s.request.cancelled]:
            self._finish(sequence, "cancelled")

    def _admit(self) -> None:
        while self._waiting:
            request = self._waiting[0]
            limit = min(len(request.prompt_ids) + request.params.max_tokens, self.context)
            if self._running and sum(s.limit for s in self._running) + limit > self.context:
                return
            self._waiting.popleft()
            try:
                check_ids(request.prompt_ids, self.model.vocab_size, self.context - 1)
                state = self.model.new_state(limit)
                self._running.append(Sequence(request, state, limit))
            except (ColibriError, MemoryError) as error:
                request.events.put(Failed(error))

    def _advance(self, sequences: list[Sequence]) -> None:
        """One step of these sequences; a failed read ends only those that need it."""
        checkpoints = [s.state.checkpoint() for s in sequences]
        try:
            self._compute(sequences)
        except (ReadError, Cancelled) as error:
            for sequence, checkpoint in zip(sequences, checkpoints, strict=True):
                sequence.state.restore(checkpoint)
            if len(sequences) > 1:
                for sequence in sequences:
                    self._advance([sequence])
            elif isinstance(error, Cancelled):
                self._finish(sequences[0], "cancelled")
            else:
                self._fail(sequences[0], error)

    def _compute(self, sequences: list[Sequence]) -> None:
        started = time.perf_counter()
        parts = [(s.state, s.next_ids(self.prefill_chunk)) for s in sequences]
        prefill = sequences[0].in_prefill
        self._stepping = sequences
        self._clock.begin(prefill, sum(len(ids) for _, ids in parts))
        try:
            before_layer = partial(self._before_layer, chunk=len(parts[0][1]))
            step = Step.of(parts, before_layer, self._clock)
            hidden = self.model.forward(step)
            last = [rows.stop - 1 for rows in step.sequences]
            for sequence, (_, ids) in zip(sequences, parts, strict=True):
                if prefill:
                    sequence.prefilled += len(ids)
            if not sequences[0].in_prefill:
                self._clock.enter("head", -1)
                logits = self.model.logits(np.ascontiguousarray(hidden[last]))
                self._clock.enter("sampling")
                for sequence, row in zip(sequences, logits, strict=True):
                    self._sample(sequence, row)
        finally:
            self._stepping = []
            self._clock.end()
        self.stats.add(prefill, len(step.token_ids), time.perf_counter() - started)

    def _before_layer(self, layer: int, chunk: int) -> None:
        if self.step_cancelled():
            raise Cancelled("the request was cancelled")
        if self._stepping[0].in_prefill:
            self._stepping[0].report(chunk, layer, len(self.model.layers), self._bytes_read())

    def _sample(self, sequence: Sequence, logits: F32) -> None:
        request = sequence.request
        try:
            sampled = sequence.sampler.sample(logits, sequence.length, sequence.generated)
        except ColibriError as error:
            self._fail(sequence, error)
            return
        sequence.generated.append(sampled.token)
        request.events.put(Token(sampled.token, sampled.logprob, sampled.top))
        if sampled.token in request.eos_ids and not request.params.ignore_eos:
            self._finish(sequence, "stop")
        elif sequence.length >= sequence.limit:
            self._finish(sequence, "length")

    def _finish(self, sequence: Sequence, reason: FinishReason) -> None:
        self._running.remove(sequence)
        sequence.request.events.put(Finished(reason))

    def _fail(self, sequence: Sequence, error: BaseException) -> None:
        self._running.remove(sequence)
        sequence.request.events.put(Failed(error))


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

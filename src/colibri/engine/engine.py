"""The engine: takes requests in, walks prompts through the model in chunks, decodes all running
sequences together.

One thread calls it. A step advances every answer by a token and, beside them, prompts by a chunk
(turns.py); the experts of all its rows are read once. No answer depends on its company. Each
running sequence owns room for its prompt and longest answer; together they never hold more than the
context that the plan reserved, nor are they more than the rows that it has working memory for. What
they leave in their states is kept for prompts that begin alike (kvcache/pool.py).
"""

import time
from collections import deque
from collections.abc import Callable
from collections.abc import Sequence as Ids

import numpy as np
from numpy.typing import NDArray

from colibri.engine.check import ExactCheck
from colibri.engine.ids import check_ids, check_request
from colibri.engine.line import Line
from colibri.engine.prefixes import Prefixes
from colibri.engine.request import BranchLogprobs, Call, Finished, FinishReason, Request, Token
from colibri.engine.sequence import Sequence
from colibri.engine.stats import EngineStats
from colibri.engine.status import EngineStatus
from colibri.engine.steps import Outcome, Steps
from colibri.engine.turns import Part, Turns, with_room
from colibri.engine.watch import Watch
from colibri.errors import Cancelled, ColibriError
from colibri.kvcache.pool import StatePool
from colibri.kvcache.sequence import SequenceState
from colibri.layers.clock import NO_CLOCK, Clock
from colibri.layers.decoder import Decoder
from colibri.layers.step import Step
from colibri.sampling import Sampled, Sampler

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
        prefix_cache: int | None = None,
        max_queue: int = 32,
    ) -> None:
        """turn_ended: called between two steps once an answer has ended, with whether there is
        more to do. sequence_positions: what a sequence's state takes whatever its length.
        prefix_cache: positions for ended sequences beside the context; 0: none is kept; None: what
        the context leaves free."""
        self.model = model
        self.context = context
        self.prefill_chunk = prefill_chunk
        self.stats = EngineStats()
        self._rows = max(prefill_chunk, logit_rows)
        self._watch = watch
        self._bytes_read = bytes_read
        self._after_step = after_step
        self._steps = Steps(model, logit_rows, watch, clock, check, bytes_read)
        self._turns = Turns(self._rows, prefill_chunk)
        self._waiting: deque[Request | Call] = deque()
        self._line = Line(max_queue)
        self._running: list[Sequence] = []
        self._states = StatePool(
            model.new_state,
            context,
            sequence_positions,
            beside=prefix_cache or 0,
            keep=prefix_cache != 0,
        )
        self._prefixes = Prefixes(self._states)
        self._turn_ended = turn_ended
        self._any_left = False

    @property
    def busy(self) -> bool:
        return bool(self._waiting or self._running)

    def enqueue(self, request: Request, bounded: bool) -> None:
        """From any thread, before submit(). Raises QueueFullError."""
        self._line.enter(request, bounded)

    def withdraw(self, request: Request) -> None:
        """From any thread: it was never submitted."""
        self._line.leave(request)

    def submit(self, work: Request | Call) -> None:
        self._waiting.append(work)

    def stop(self) -> None:
        """From any thread, before the end: the step in hand is broken off within a layer."""
        self._watch.stopping = True

    def step(self) -> None:
        self._drop_unwanted()
        self._admit()
        if parts := self._turns.parts(self._running):
            self._advance(with_room(parts, self._states))
        if self._any_left:
            self._any_left = False
            self._turn_ended(self.busy)

    def fail_all(self, error: BaseException) -> None:
        for work in [*self._waiting, *(s.request for s in self._running)]:
            work.fail(error)
            if isinstance(work, Request):
                self._line.leave(work)
        self._waiting.clear()
        for sequence in list(self._running):
            self._leave(sequence, keep=False)

    def forward(self, token_ids: Ids[int]) -> F32:
        """Logits of every position [tokens, vocab], from nothing and leaving nothing."""
        check_ids(token_ids, self.model.vocab_size, self.context)
        held = self._states.take(len(token_ids))
        held.reach(len(token_ids))
        self._states.make_room()
        try:
            return self._forward(held.state, token_ids)
        finally:
            self._states.give_back(held, keep=False)

    def _forward(self, state: SequenceState, token_ids: Ids[int]) -> F32:
        logits = np.empty((len(token_ids), self.model.vocab_size), np.float32)
        for start in range(0, len(token_ids), self.prefill_chunk):
            chunk = token_ids[start : start + self.prefill_chunk]
            hidden = self.model.forward(Step.of([(state, chunk)], self._watch.enter))
            for row, some in self._steps.logits(hidden):
                logits[start + row : start + row + len(some)] = some
        return logits

    def read(self, request: Request) -> None:
        """Walk a prompt through the model in a step of its own, from nothing and leaving nothing:
        for whoever listens to the experts. On the engine's thread, between two steps. Raises
        Cancelled, and what breaks a step off."""
        check_request(request, self.model.vocab_size, self.context)
        length = len(request.prompt_ids)
        held = self._states.take(length)
        held.reach(length)
        self._states.make_room()
        sequence = Sequence(request, held, Sampler(request.params, request.prompt_ids), length)
        try:
            while sequence.in_prefill:
                part = Part(sequence, sequence.next_ids(self.prefill_chunk))
                self._walk([part])
                sequence.advance(part.ids, part.marks)
                self._after_step(len(part.ids))
        finally:
            self._states.give_back(held, keep=False)

    def _drop_unwanted(self) -> None:
        for work in [w for w in self._waiting if isinstance(w, Request) and w.unwanted]:
            self._waiting.remove(work)
            self._line.leave(work)
            work.end_unwanted()
            self.stats.ended[work.end] += 1
        for sequence in [s for s in self._running if s.request.unwanted]:
            sequence.request.end_unwanted()
            self._leave(sequence)

    def _admit(self) -> None:
        """In the order in which they came, as far as there is room; but one that goes on from a
        prompt which is being read waits for that."""
        for work in list(self._waiting):
            if not self._has_room(work):
                return
            if isinstance(work, Call):
                self._waiting.remove(work)
                work.run()
            elif not self._prefixes.better_soon(work, self._running):
                self._waiting.remove(work)
                self._line.leave(work)
                self._start(work)

    def _has_room(self, work: Request | Call) -> bool:
        if not self._running:
            return True
        tokens = work.tokens if isinstance(work, Call) else self._limit(work)
        return self._states.has_room(tokens) and len(self._running) < self._rows

    def _limit(self, request: Request) -> int:
        return min(len(request.prompt_ids) + request.most_tokens, self.context)

    def _start(self, request: Request) -> None:
        limit = self._limit(request)
        try:
            check_request(request, self.model.vocab_size, self.context)
            sampler = Sampler(request.params, request.prompt_ids, request.matcher)
            sequence = self._prefixes.sequence(request, sampler, limit)
        except (ColibriError, MemoryError) as error:
            request.fail(error)
            self.stats.ended["failed"] += 1
            return
        self._running.append(sequence)
        self._turns.enter(sequence)
        self.stats.started += 1
        self.stats.prompt_tokens += len(request.prompt_ids)
        self.stats.cached_tokens += request.cached_tokens

    def _advance(self, parts: Ids[Part]) -> None:
        """One step of these parts. A failed read or non-finite logits end only the requests
        affected. Requests that nobody waits for any more are dropped; the others go on."""
        try:
            outcomes = self._walk(parts)
        except ColibriError as error:
            if not self._watch.stopping:  # else fail_all() follows
                self._again(parts, error)
            return
        for part, outcome in zip(parts, outcomes, strict=True):
            self._settle(part, outcome)
        self._after_step(sum(len(part.ids) for part in parts))

    def _walk(self, parts: Ids[Part]) -> list[Outcome]:
        """What comes of the parts, counted. Raises as Steps.run does."""
        started, unchecked = time.perf_counter(), self._steps.check_seconds
        reading = sum(len(part.ids) for part in parts if part.sequence.reading)
        outcomes = self._steps.run(parts)
        seconds = time.perf_counter() - started - (self._steps.check_seconds - unchecked)
        self._count(parts, reading, seconds)
        return outcomes

    def _again(self, parts: Ids[Part], error: ColibriError) -> None:
        gone = [part.sequence for part in parts if part.sequence.request.unwanted]
        wanted = [part for part in parts if part.sequence not in gone]
        for sequence in gone:
            sequence.request.end_unwanted()
            self._leave(sequence)
        if isinstance(error, Cancelled) or gone:
            if wanted:
                self._advance(wanted)
        elif len(parts) > 1:
            for part in parts:
                self._advance([part])
        else:
            self._fail(parts[0].sequence, error)

    def _count(self, parts: Ids[Part], reading: int, seconds: float) -> None:
        self.stats.add(reading, sum(len(part.ids) for part in parts) - reading, seconds)
        if reading:
            self._turns.pace.read(reading, seconds)
        else:
            self._turns.pace.decoded(seconds)

    def _settle(self, part: Part, outcome: Outcome) -> None:
        """What a step brought a sequence."""
        sequence = part.sequence
        if isinstance(outcome, ColibriError):
            self._fail(sequence, outcome)
            return
        sequence.advance(part.ids, part.marks)
        if isinstance(outcome, Sampled):
            self._take(sequence, outcome)
        elif not sequence.in_prefill:
            self._end_without_answer(sequence)

    def _take(self, sequence: Sequence, sampled: Sampled) -> None:
        request = sequence.request
        sequence.generated.append(sampled.token)
        request.send(Token(sampled.token, sampled.logprob, sampled.top))
        if sequence.ends_with(sampled.token):
            self._finish(sequence, "stop")
        elif sequence.length >= sequence.limit:
            self._finish(sequence, "length")

    def _end_without_answer(self, sequence: Sequence) -> None:
        """Its prompt is read, and perhaps all its branches."""
        if sequence.walk is None:
            self._finish(sequence, "length")
        elif not sequence.walk.left:
            sequence.request.send(BranchLogprobs(sequence.walk.logprobs()))
            self._finish(sequence, "stop")

    def _finish(self, sequence: Sequence, reason: FinishReason) -> None:
        sequence.request.send(Finished(reason))
        self._leave(sequence)

    def _fail(self, sequence: Sequence, error: BaseException) -> None:
        sequence.request.fail(error)
        self._leave(sequence, keep=False)

    def _leave(self, sequence: Sequence, keep: bool = True) -> None:
        self._running.remove(sequence)
        self._states.give_back(sequence.held, keep=keep)
        self.stats.ended[sequence.request.end] += 1
        self._any_left = True

    def requests(self) -> list[Request]:
        """All that wait or run. From any thread."""
        return [*self._line.requests(), *(s.request for s in list(self._running))]

    @property
    def progress(self) -> tuple[int, int]:
        """Changes while anything moves. From any thread."""
        return self._watch.beats, self._bytes_read()

    def status(self) -> EngineStatus:
        """From any thread."""
        return EngineStatus(
            running=tuple(s.status() for s in list(self._running)),
            waiting=len(self._line),
            stats=self.stats.copy(),
            kept_tokens=self._states.kept_tokens,
            context=self.context,
        )

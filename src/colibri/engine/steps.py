"""One walk of the model over the parts of a step, and what comes of their logits."""

from collections.abc import Callable, Iterator
from collections.abc import Sequence as Ids

import numpy as np
from numpy.typing import NDArray

from colibri.engine.check import ExactCheck
from colibri.engine.sequence import Sequence
from colibri.engine.turns import Part
from colibri.engine.watch import Watch
from colibri.errors import Cancelled, ColibriError
from colibri.layers.clock import Clock
from colibri.layers.decoder import Decoder
from colibri.layers.step import Step
from colibri.sampling import Sampled

F32 = NDArray[np.float32]
Outcome = Sampled | ColibriError | None  # of a part: a token, or what is wrong with its numbers


class Steps:
    """logit_rows: whose logits exist at a time: those of all could be large beside a budget.

    bytes_read: of experts so far, asked in every layer of a prompt's chunk.
    """

    def __init__(
        self,
        model: Decoder,
        logit_rows: int,
        watch: Watch,
        clock: Clock,
        check: ExactCheck | None,
        bytes_read: Callable[[], int],
    ) -> None:
        self._model = model
        self._logit_rows = logit_rows
        self._watch = watch
        self._clock = clock
        self._check = check
        self._bytes_read = bytes_read

    @property
    def check_seconds(self) -> float:
        """That were spent on checking, in all steps."""
        return 0.0 if self._check is None else self._check.cost.seconds

    def run(self, parts: Ids[Part]) -> list[Outcome]:
        """What comes of each part. Raises what broke the step off; the states are then as they were
        before it."""
        checkpoints = [part.sequence.held.state.checkpoint() for part in parts]
        shares = [(part.sequence.request, len(part.ids)) for part in parts]
        reading = any(part.sequence.reading for part in parts)
        self._watch.begin(shares, len(self._model.layers))
        self._clock.begin(reading, sum(rows for _, rows in shares))
        try:
            return self._compute(parts, reading)
        except ColibriError:
            for part, checkpoint in zip(parts, checkpoints, strict=True):
                part.sequence.held.state.restore(checkpoint)
            raise
        finally:
            self._watch.end()
            self._clock.end()

    def logits(self, hidden: F32) -> Iterator[tuple[int, F32]]:
        """(first row, logits [rows, vocab]) of a few rows at a time."""
        for row in range(0, len(hidden), self._logit_rows):
            yield row, self._model.logits(hidden[row : row + self._logit_rows])

    def _compute(self, parts: Ids[Part], reading: bool) -> list[Outcome]:
        pairs = [(part.sequence.held.state, part.ids) for part in parts]
        exact = None
        if self._check is not None and not reading:
            exact = self._check.before(pairs, self._before_layer)
        readers = [part for part in parts if part.sequence.in_prefill]

        def before_layer(layer: int) -> None:
            self._before_layer(layer)
            self._report(readers, layer)

        marks = [part.marks for part in parts] if any(part.marks for part in parts) else None
        step = Step.of(pairs, before_layer if readers else self._before_layer, self._clock, marks)
        hidden = self._model.forward(step)
        starts = [rows.start for rows in step.sequences]
        return self._choose(parts, starts, hidden, exact)

    def _before_layer(self, layer: int) -> None:
        if not self._watch.enter(layer):
            return
        unwanted = self._watch.unwanted()
        if (unwanted or self._watch.stopping) and self._watch.cancelled():
            raise Cancelled("the request was cancelled")
        for request in unwanted:  # it is too late to do the step without them
            request.end_unwanted()

    def _report(self, readers: Ids[Part], layer: int) -> None:
        read = self._bytes_read()
        for part in readers:
            part.sequence.report(len(part.ids), layer, len(self._model.layers), read)

    def _choose(
        self, parts: Ids[Part], starts: Ids[int], hidden: F32, exact: F32 | None
    ) -> list[Outcome]:
        """exact: hidden states by exact routing, of answers alone, to be compared."""
        outcomes: list[Outcome] = [None] * len(parts)
        wanted = [
            (i, row) for i, part in enumerate(parts) for row in part.sequence.wanted(len(part.ids))
        ]
        rows = hidden[[starts[i] + row for i, row in wanted]]
        self._clock.enter("head", -1)
        for first, logits in self.logits(rows):
            self._clock.enter("sampling")
            if self._check is not None and exact is not None:
                self._check.compare(exact[first : first + len(logits)], logits)
            for (i, row), scores in zip(wanted[first:], logits, strict=False):
                if outcomes[i] is None:
                    outcomes[i] = _outcome(parts[i].sequence, row, scores)
            self._clock.enter("head", -1)
        return outcomes


def _outcome(sequence: Sequence, row: int, logits: F32) -> Outcome:
    try:
        if sequence.score(row, logits):
            return sequence.sampler.sample(logits, sequence.length, sequence.generated)
    except ColibriError as error:
        return error
    return None

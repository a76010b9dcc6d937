"""What approximate routing costs, measured on the run's own tokens.

Of every so many decoded tokens the logits are computed twice: with the family's own routing, then,
from the same state of the sequence, as the run has it. So it is the cost of this one step that is
seen, not that of what earlier steps left in the state.
"""

import time
from collections.abc import Callable
from collections.abc import Sequence as Ids
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colibri.kernels import ops
from colibri.kvcache.sequence import SequenceState
from colibri.layers.decoder import Decoder
from colibri.layers.step import Step

F32 = NDArray[np.float32]


@dataclass
class ApproxCost:
    """Sums over the tokens that were checked."""

    tokens: int = 0
    agreed: int = 0  # the likeliest token is the same
    kl: float = 0.0  # KL(exact || approximate), in nats
    seconds: float = 0.0  # that checking took
    bytes_read: int = 0  # for it


class ExactCheck:
    """exact: the model with exact routing, over the same states. every: so many steps of decode.

    aside: called before the exact pass, which brings its experts into the cache.
    """

    def __init__(
        self,
        exact: Decoder,
        every: int,
        bytes_read: Callable[[], int],
        aside: Callable[[], None] = lambda: None,
    ) -> None:
        self.cost = ApproxCost()
        self._exact = exact
        self._every = every
        self._bytes_read = bytes_read
        self._aside = aside
        self._steps = 0

    def before(
        self,
        parts: Ids[tuple[SequenceState, Ids[int]]],
        before_layer: Callable[[int], None],
    ) -> F32 | None:
        """Before a step of decode, if a check is due: its exact hidden states [rows, hidden]. The
        states of the sequences are left as they were. Raises what the step may raise."""
        self._steps += 1
        if (self._steps - 1) % self._every:
            return None
        began, read = time.perf_counter(), self._bytes_read()
        self._aside()
        checkpoints = [state.checkpoint() for state, _ in parts]
        try:
            hidden = self._exact.forward(Step.of(parts, before_layer))
        finally:
            for (state, _), checkpoint in zip(parts, checkpoints, strict=True):
                state.restore(checkpoint)
        self.cost.bytes_read += self._bytes_read() - read
        self.cost.seconds += time.perf_counter() - began
        return hidden

    def compare(self, hidden: F32, logits: F32) -> None:
        """Rows of what before() gave, and the step's own logits for them [rows, vocab]."""
        began = time.perf_counter()
        for i, approximate in enumerate(logits):  # one by one: a vocabulary is large
            exact = self._exact.logits(hidden[i : i + 1])[0]
            if np.isfinite(exact).all() and np.isfinite(approximate).all():
                self._add(exact, approximate)
        self.cost.seconds += time.perf_counter() - began

    def _add(self, exact: F32, approximate: F32) -> None:
        self.cost.tokens += 1
        self.cost.agreed += int(exact.argmax() == approximate.argmax())
        self.cost.kl += kl(exact, approximate)


def kl(exact: F32, approximate: F32) -> float:
    """KL(exact || approximate) of the distributions of two rows of logits, in nats."""
    p, q = (row - ops.log_sum_exp(row[None])[0] for row in (exact, approximate))
    return max(0.0, float(np.sum(np.exp(p) * (p - q))))

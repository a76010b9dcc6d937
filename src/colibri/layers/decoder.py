"""The decoder: embedding, pre-norm residual layers, final norm, head. One layer walks over all
rows before the next."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from colibri.formats.base import Matrix
from colibri.kernels.layer import step_rows
from colibri.kernels.matmul import embed
from colibri.kvcache.base import LayerCache
from colibri.kvcache.sequence import SequenceState
from colibri.layers.linear import Linear
from colibri.layers.norm import RMSNorm
from colibri.layers.rope import Rope
from colibri.layers.step import Step

F32 = NDArray[np.float32]


class Half(Protocol):
    """A layer's second half: routed experts, or one MLP."""

    def __call__(self, x: F32, y: F32 | None, norm: RMSNorm, step: Step) -> F32:
        """x += y; then what the half makes of the norm of x. y's memory may be used for it."""
        ...


class Mixer(Half, Protocol):
    """A layer's first half: attention, of whatever kind."""

    def new_cache(self, capacity: int) -> LayerCache: ...


@dataclass(frozen=True)
class DecoderLayer:
    input_norm: RMSNorm
    mixer: Mixer
    post_norm: RMSNorm
    mlp: Half

    def __call__(self, x: F32, y: F32 | None, step: Step) -> F32 | None:
        """x [rows, hidden], the residual stream, updated in place but for the layer's own output.

        That is returned, and added by the next norm (y: the previous layer's), in one pass with it.
        """
        y = self.mixer(x, y, self.input_norm, step)
        return self.mlp(x, y, self.post_norm, step)

    def mlp_input(self, x: F32) -> F32:
        """[rows, hidden]: what the second half makes of the residual x before it does its own."""
        return self.post_norm(x)


class Residual(Protocol):
    """What passes through the layers: how it begins and how it ends."""

    def begin(self, x: F32) -> F32:
        """Of the embedding x [rows, hidden], which may be kept."""
        ...

    def end(self, x: F32, y: F32 | None, norm: RMSNorm) -> F32:
        """[rows, hidden], normed. x, y: as of a DecoderLayer; both may be used up."""
        ...


class PlainResidual:
    """One stream."""

    def begin(self, x: F32) -> F32:
        return x

    def end(self, x: F32, y: F32 | None, norm: RMSNorm) -> F32:
        return norm.added(x, y)


PLAIN = PlainResidual()


class AroundStep(Protocol):
    """Lookahead, to the decoder: entered before the first layer, left after the last."""

    def step(self, step: Step, x: F32) -> AbstractContextManager[None]: ...


class LayerWalker(Protocol):
    """Calls several layers together, where that can be."""

    def walk(self, index: int, x: F32, y: F32 | None, step: Step) -> tuple[int, F32] | None:
        """From the layer at this index on, x and y as of a DecoderLayer: the index after the last
        one called, and what is still to be added to x. None: call it by itself."""
        ...


@dataclass(frozen=True)
class Decoder:
    embedding: Matrix
    rope: Rope
    layers: Sequence[DecoderLayer]
    norm: RMSNorm
    head: Linear
    residual: Residual = PLAIN
    lookahead: AroundStep | None = None
    walker: LayerWalker | None = None

    @property
    def vocab_size(self) -> int:
        return self.head.weight.rows

    def new_state(self, capacity: int) -> SequenceState:
        """Room for `capacity` positions, its memory touched as it is used."""
        return SequenceState([layer.mixer.new_cache(capacity) for layer in self.layers])

    def forward(self, step: Step) -> F32:
        """Hidden states [rows, hidden] after the last norm; every sequence's state grows by its
        rows."""
        step.clock.enter("dense", -1)
        x = self.residual.begin(embed(step.token_ids, self.embedding))
        step.rope = self.rope.tables(step.positions)
        stops = [rows.stop for rows in step.sequences]
        caches = [rows.state.kernels for rows in step.sequences]
        step.kernel_rows = step_rows(step.positions, stops, *step.rope, caches)
        step.selection = [None] * len(step.sequences)
        y = None
        with self.lookahead.step(step, x) if self.lookahead else nullcontext():
            i = 0
            while i < len(self.layers):
                step.before_layer(i)
                i, y = self._layers_from(i, x, y, step)
        step.clock.enter("dense", -1)
        return self.residual.end(x, y, self.norm)

    def _layers_from(self, i: int, x: F32, y: F32 | None, step: Step) -> tuple[int, F32 | None]:
        """One layer or several: the next one's index, and what is still to be added to x."""
        if self.walker and (walked := self.walker.walk(i, x, y, step)):
            return walked
        step.clock.enter("attention", i)
        return i + 1, self.layers[i](x, y, step)

    def logits(self, hidden: F32) -> F32:
        """[rows, hidden] -> float32 [rows, vocab]."""
        return self.head(hidden)

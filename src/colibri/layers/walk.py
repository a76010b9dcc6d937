"""A token's walk through the layers, in as few calls as can be where experts are at hand.

For steps of answers only. Between the layers of a prompt's chunk, which take long, somebody may
want to know how far it is, or nobody any longer. Nor does a walk outlast PATIENCE_SECONDS by more
than a layer: an answer may be given up meanwhile.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from colibri.experts.base import LocalExecutor
from colibri.kernels.walk import Walk, WalkedLayer
from colibri.layers.attention import Attention
from colibri.layers.decoder import Decoder, DecoderLayer
from colibri.layers.moe import MoE
from colibri.layers.nonfinite import not_finite
from colibri.layers.step import Step

F32 = NDArray[np.float32]
PATIENCE_SECONDS = 0.01


@dataclass(frozen=True)
class Stretch:
    """Neighbouring layers that the kernels know whole; `first`: the first one's index."""

    first: int
    moes: Sequence[MoE]
    executor: LocalExecutor
    kernel: Walk

    def walk(self, index: int, x: F32, y: F32 | None, step: Step) -> tuple[int, F32]:
        """From the layer at this index on: the index of the layer that follows, and what is still
        to be added to x."""
        assert step.kernel_rows is not None
        done = self.kernel(index - self.first, x, y, step.kernel_rows)
        moes = self.moes[index - self.first :]
        begun = done.begun
        step.clock.walked(range(index, index + begun), done.moments[:begun])
        for i, named in enumerate(done.named[: done.layers].tolist()):
            self.executor.ran(moes[i].layer, done.ids[i], named)
        if begun == done.layers:
            return index + begun, done.y
        moe, i = moes[done.layers], done.layers
        if done.bad_row >= 0:
            text = f"row {done.bad_row}: a router logit is not finite"
            raise not_finite(moe.layer, ValueError(text))
        return index + begun, moe.run(done.y, (done.ids[i], done.weights[i]), step)


@dataclass(frozen=True)
class Walker:
    layers: Sequence[DecoderLayer]

    def walk(self, index: int, x: F32, y: F32 | None, step: Step) -> tuple[int, F32] | None:
        """As Stretch.walk; None: this layer is to be called by itself."""
        stretch = self._stretches.get(index)
        if stretch is None or len(step.positions) > len(step.sequences):
            return None
        if step.guess is not None or not stretch.executor.settled:
            return None
        return stretch.walk(index, x, y, step)

    @cached_property
    def _stretches(self) -> Mapping[int, Stretch]:
        """By the index of each of their layers."""
        found: dict[int, Stretch] = {}
        for kind, indices in groupby(range(len(self.layers)), lambda i: _kind(self.layers[i])):
            if kind is not None:
                run = list(indices)
                layers = [self.layers[i] for i in run]
                stretch = Stretch(run[0], [_moe(layer) for layer in layers], kind[0], _walk(layers))
                found.update(dict.fromkeys(run, stretch))
        return found


def with_walks(decoder: Decoder) -> Decoder:
    """The decoder, calling its layers together where it can."""
    return replace(decoder, walker=Walker(decoder.layers))


def _kind(layer: DecoderLayer) -> tuple[LocalExecutor, int] | None:
    """What neighbours must have in common to be walked together; None: it is no such layer."""
    moe = layer.mlp
    if type(layer) is not DecoderLayer or not isinstance(layer.mixer, Attention):
        return None
    if not isinstance(moe, MoE) or moe.fused is None or moe.shared is not None:
        return None
    return moe.fused.executor, moe.router.k


def _moe(layer: DecoderLayer) -> MoE:
    assert isinstance(layer.mlp, MoE)
    return layer.mlp


def _walk(layers: Sequence[DecoderLayer]) -> Walk:
    parts: list[WalkedLayer] = []
    for layer in layers:
        assert isinstance(layer.mixer, Attention)
        fused = _moe(layer).fused
        assert fused is not None
        norms = layer.input_norm.kernel, layer.post_norm.kernel
        parts.append((norms[0], layer.mixer.kernel, norms[1], fused.kernel))
    return Walk(parts, PATIENCE_SECONDS)

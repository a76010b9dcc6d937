"""A decoder whose experts are chosen or kept approximately, and its exact twin."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from colibri.experts.base import ExpertExecutor
from colibri.layers.decoder import AroundStep, Decoder, DecoderLayer
from colibri.layers.moe import MoE
from colibri.layers.step import Step

F32 = NDArray[np.float32]
I64 = NDArray[np.int64]


def exact_twin(decoder: Decoder, stored: ExpertExecutor | None = None) -> Decoder:
    """The same weights and states with every family's own routing; it does not look ahead.

    stored: experts at the bits that are stored, where the decoder's have fewer.
    """
    layers = [_exact(layer, stored) for layer in decoder.layers]
    return replace(decoder, layers=layers, lookahead=None, walker=None)


def _exact(layer: DecoderLayer, stored: ExpertExecutor | None) -> DecoderLayer:
    if not isinstance(layer.mlp, MoE):
        return layer
    mlp = layer.mlp.exact or layer.mlp
    return replace(layer, mlp=mlp if stored is None else replace(mlp, experts=stored))


@dataclass(frozen=True)
class ToldPositions:
    """Tells someone the positions of a step's rows before it begins."""

    tell: Callable[[I64], None]
    inner: AroundStep | None

    def step(self, step: Step, x: F32) -> AbstractContextManager[None]:
        self.tell(step.positions)
        return self.inner.step(step, x) if self.inner else nullcontext()


def telling_positions(decoder: Decoder, tell: Callable[[I64], None]) -> Decoder:
    return replace(decoder, lookahead=ToldPositions(tell, decoder.lookahead))

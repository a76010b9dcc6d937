"""Hyper-connections (mHC): layers whose residual is several streams.

Source: Glm5NextTextHyperConnection of transformers. Each half of a layer reads a weighted sum of
the streams; they are mixed with one another before it runs, so that, as in a plain layer, the
residual lacks nothing but the half's output while the half is at work.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colibri.kernels.hyper import HyperMix, leave, mean
from colibri.layers.decoder import DecoderLayer
from colibri.layers.norm import RMSNorm
from colibri.layers.step import Step

F32 = NDArray[np.float32]


@dataclass(frozen=True)
class Streams:
    """The residual [rows, streams, hidden]: begins as copies, ends as their mean."""

    count: int

    def begin(self, x: F32) -> F32:
        return np.repeat(x[:, None], self.count, axis=1)

    def end(self, x: F32, y: F32 | None, norm: RMSNorm) -> F32:
        hidden = mean(x)
        return norm(hidden, hidden)


@dataclass(frozen=True)
class HyperLayer(DecoderLayer):
    mixer_mix: HyperMix
    mlp_mix: HyperMix

    def __call__(self, x: F32, y: F32 | None, step: Step) -> None:
        """x [rows, streams, hidden] takes in what both halves make; nothing is left to be added."""
        step.clock.enter("dense")
        h, out = self.mixer_mix.enter(x)
        step.clock.enter("attention")
        made = self.mixer(h, None, self.input_norm, step)
        step.clock.enter("dense")
        leave(x, out, made)
        h, step.shares = self.mlp_mix.enter(x)
        made = self.mlp(h, None, self.post_norm, step)
        step.clock.enter("dense")
        leave(x, step.shares, made)

    def mlp_input(self, x: F32) -> F32:
        h, _ = self.mlp_mix.enter(x.copy())
        return self.post_norm(h, h)

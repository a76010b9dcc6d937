"""Linear attention by the delta rule: gated DeltaNet (Qwen3.5) and KDA (Kimi, GLM-5.3-Flash).

Source: Qwen3_5MoeGatedDeltaNet and Glm5NextKimiDeltaAttention of transformers. They share all that
lies between their projections; their gates differ in formula and in how finely they decay.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colibri.kernels.delta import DeltaRule
from colibri.kvcache.recurrent import RecurrentState
from colibri.layers.linear import Linear, Projections
from colibri.layers.norm import RMSNorm
from colibri.layers.step import Rows, Step

F32 = NDArray[np.float32]


@dataclass(frozen=True)
class DeltaCore:
    """The rule over the states of a step's sequences."""

    layer: int
    rule: DeltaRule

    def new_cache(self) -> RecurrentState:
        return RecurrentState(self.rule.shape)

    def __call__(self, inputs: Sequence[F32], gate: F32, beta: F32, z: F32, step: Step) -> F32:
        """As DeltaRule: [rows, heads * value_dim]; the states advance."""
        if any(rows.marks for rows in step.sequences):
            return self._in_pieces(inputs, gate, beta, z, step)
        stops, before, after = [], [], []
        for rows in step.sequences:
            old, new = self._state(rows).advance(rows.stop - rows.start)
            stops.append(rows.stop)
            before.append(old)
            after.append(new)
        return self.rule(inputs, gate, beta, z, stops, before, after)

    def _in_pieces(self, inputs: Sequence[F32], gate: F32, beta: F32, z: F32, step: Step) -> F32:
        """The same bits, stopping where a state shall be kept."""
        out = []
        for rows in step.sequences:
            state = self._state(rows)
            for start, stop in rows.pieces():
                if start != rows.start:
                    state.mark()
                old, new = state.advance(stop - start)
                own = slice(start, stop)
                parts = [x[own] for x in inputs]
                size = [stop - start]
                out.append(self.rule(parts, gate[own], beta[own], z[own], size, [old], [new]))
        return np.concatenate(out)

    def _state(self, rows: Rows) -> RecurrentState:
        state = rows.state.layers[self.layer]
        assert isinstance(state, RecurrentState)
        return state


@dataclass(frozen=True)
class GatedDeltaNet:
    """One gate a head: g = -exp(A_log) softplus(a + dt_bias)."""

    core: DeltaCore
    input_proj: Projections  # q|k|v in one, z, b, a
    out_proj: Linear

    def new_cache(self, capacity: int) -> RecurrentState:
        return self.core.new_cache()

    def __call__(self, x: F32, y: F32 | None, norm: RMSNorm, step: Step) -> F32:
        _, (qkv, z, beta, gate) = self.input_proj.normed(x, y, norm)
        return self.out_proj(self.core([qkv], gate, beta, z, step))


@dataclass(frozen=True)
class KimiDeltaAttention:
    """One gate a key dimension of a head, and the output's gate, each through a narrow middle."""

    core: DeltaCore
    input_proj: Projections  # q, k, v, b, f_a, g_a
    f_b_proj: Linear
    g_b_proj: Linear
    o_proj: Linear

    def new_cache(self, capacity: int) -> RecurrentState:
        return self.core.new_cache()

    def __call__(self, x: F32, y: F32 | None, norm: RMSNorm, step: Step) -> F32:
        _, (q, k, v, beta, gate, z) = self.input_proj.normed(x, y, norm)
        out = self.core([q, k, v], self.f_b_proj(gate), beta, self.g_b_proj(z), step)
        return self.o_proj(out)

"""The delta rule of a layer, gated DeltaNet's or KDA's, in one native call between its projections.

Of every row: q, k and v pass a causal convolution and silu; q and k of each head are brought to
length 1, q is divided by sqrt(key_dim). Then, for each head with its state S [key_dim, value_dim]:

    S <- exp(g) S;  S <- S + k (x) sigmoid(beta) (v - k S);  o = q S

and o is normed over the head and multiplied by silu(z) or sigmoid(z). A row's bits depend on the
rows of its sequence before it, however these were cut into calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from colibri import _native

F32 = npt.NDArray[np.float32]
Recurrent = _native.Recurrent
# (window [taps - 1, channels], matrix [heads, key_dim, value_dim]): the kernel keeps a head's
# matrix in blocks of 32 value columns, one behind the other.
recurrent = _native.recurrent
MAX_TAPS = 8


@dataclass(frozen=True)
class DeltaShape:
    """`key_heads` divide `heads`: value head j reads key head j // (heads // key_heads)."""

    heads: int
    key_heads: int
    key_dim: int
    value_dim: int
    taps: int = 4

    @property
    def values(self) -> int:
        return self.heads * self.value_dim

    @property
    def channels(self) -> int:
        """Of the convolution: q, k and v of all heads, in this order."""
        return 2 * self.key_heads * self.key_dim + self.values

    @property
    def window_shape(self) -> tuple[int, int]:
        return self.taps - 1, self.channels

    @property
    def matrix_shape(self) -> tuple[int, int, int]:
        return self.heads, self.key_dim, self.value_dim

    @property
    def state_bytes(self) -> int:
        """Of a sequence: what it remembers, and once more while a step may be taken back."""
        return (
            2 * 4 * ((self.taps - 1) * self.channels + self.heads * self.key_dim * self.value_dim)
        )


class DeltaRule:
    """conv [taps, channels], oldest tap first. a_log and bias have an element a head, or one a key
    dimension of a head; norm [value_dim].

    The gate of x is g = lower * sigmoid(exp(a_log) (x + bias)), or without `lower`
    g = -exp(a_log) * softplus(x + bias). ValueError: an array has another shape.
    """

    def __init__(
        self,
        shape: DeltaShape,
        conv: F32,
        a_log: F32,
        bias: F32,
        norm: F32,
        *,
        eps: float,
        silu: bool,
        lower: float | None = None,
    ) -> None:
        self.shape = shape
        dims = (shape.heads, shape.key_heads, shape.key_dim, shape.value_dim)
        self._native = _native.delta_rule(conv, *dims, a_log, bias, lower, norm, eps, silu)

    def __call__(
        self,
        inputs: Sequence[F32],
        gate: F32,
        beta: F32,
        z: F32,
        stops: Sequence[int],
        before: Sequence[Recurrent | None],
        after: Sequence[Recurrent],
    ) -> F32:
        """[rows, heads * value_dim]. inputs: the channels, in one array [rows, some] or several.

        gate [rows, gates], beta [rows, heads], z [rows, heads * value_dim]. Sequences lie one
        behind the other, each up to its stop; their states are read from `before` (None: nothing
        remembered) and written to `after`, which may be the same.
        """
        out = np.empty((len(z), self.shape.values), np.float32)
        _native.delta_mix(self._native, inputs, gate, beta, z, stops, before, after, out)
        return out

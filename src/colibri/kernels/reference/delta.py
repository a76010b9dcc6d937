"""The meaning of kernels/delta.py in plain NumPy and double precision, for one sequence."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colibri.kernels.delta import DeltaShape

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]


def _sigmoid(x: Doubles) -> Doubles:
    y: Doubles = np.exp(-np.logaddexp(0, -x))
    return y


def _unit(x: Doubles) -> Doubles:
    y: Doubles = x / np.sqrt((x * x).sum(-1, keepdims=True) + 1e-6)
    return y


@dataclass(frozen=True)
class DeltaRule:
    shape: DeltaShape
    conv: Floats
    a_log: Floats
    bias: Floats
    norm: Floats
    eps: float
    silu: bool
    lower: float | None = None

    def __call__(
        self, qkv: Floats, gate: Floats, beta: Floats, z: Floats, window: Doubles, matrix: Doubles
    ) -> tuple[Doubles, Doubles, Doubles]:
        """out [rows, heads * value_dim], and the window and the matrix after these rows."""
        s, rows = self.shape, len(qkv)
        seen: Doubles = np.concatenate([window, qkv.astype(np.float64)])
        mixed = sum(self.conv[t] * seen[t : t + rows] for t in range(s.taps))
        mixed = mixed * _sigmoid(mixed)
        keys = s.key_heads * s.key_dim
        q, k = (
            np.repeat(_unit(part.reshape(rows, s.key_heads, -1)), s.heads // s.key_heads, 1)
            for part in (mixed[:, :keys], mixed[:, keys : 2 * keys])
        )
        v = mixed[:, 2 * keys :].reshape(rows, s.heads, s.value_dim)
        decay, write = self._decay(gate), _sigmoid(beta.astype(np.float64))
        out = np.empty((rows, s.heads, s.value_dim))
        for r in range(rows):
            matrix = decay[r] * matrix
            found = np.einsum("hk,hkv->hv", k[r], matrix)
            matrix = matrix + np.einsum("hk,hv->hkv", k[r], write[r][:, None] * (v[r] - found))
            out[r] = np.einsum("hk,hkv->hv", q[r] / np.sqrt(s.key_dim), matrix)
        return self._output(out, z), seen[rows:], matrix

    def _decay(self, gate: Floats) -> Doubles:
        """[rows, heads, key_dim or 1, 1]"""
        x, gain = gate.astype(np.float64) + self.bias, np.exp(self.a_log.astype(np.float64))
        g = -gain * np.logaddexp(0, x) if self.lower is None else self.lower * _sigmoid(gain * x)
        decay: Doubles = np.exp(g)
        return decay.reshape(len(gate), self.shape.heads, -1, 1)

    def _output(self, out: Doubles, z: Floats) -> Doubles:
        gate = z.astype(np.float64).reshape(out.shape)
        open_ = gate * _sigmoid(gate) if self.silu else _sigmoid(gate)
        rms = np.sqrt((out * out).mean(-1, keepdims=True) + self.eps)
        y: Doubles = out / rms * self.norm * open_
        return y.reshape(len(out), -1)

"""Norms, element-wise functions, softmax and rotary embedding. Every array is C-contiguous fp32."""

import math

import numpy as np
from numpy.typing import NDArray

from colibri import _native

Floats = NDArray[np.float32]


def rms_norm(x: Floats, w: Floats, eps: float, out: Floats | None = None) -> Floats:
    """x / sqrt(mean(x^2) + eps) * w over the last dimension; `out` may be x itself.

    A row whose sum of squares is not finite becomes NaN.
    """
    out = np.empty_like(x) if out is None else out
    _native.rms_norm(x, w, eps, out)
    return out


def add_rms_norm(x: Floats, y: Floats, w: Floats, eps: float) -> Floats:
    """x += y, then y = rms_norm of x, both in place: the residual stream on its way into a layer.

    Returns y, of no further use as the summand: fresh memory costs a small call most of its time.
    """
    _native.add_rms_norm(x, y, w, eps)
    return y


def layer_norm(x: Floats, w: Floats, b: Floats, eps: float) -> Floats:
    """(x - mean) / sqrt(variance + eps) * w + b over the last dimension."""
    out = np.empty_like(x)
    _native.layer_norm(x, w, b, eps, out)
    return out


def silu_mul(
    gate: Floats, up: Floats, out: Floats | None = None, limit: float = math.inf
) -> Floats:
    """gate / (1 + exp(-gate)) * up: the middle of SwiGLU; `out` may be gate itself.

    Of gate what is above the limit is the limit, and up is held within +-limit; NaN stays.
    """
    out = np.empty_like(gate) if out is None else out
    _native.silu_mul(gate, up, limit, out)
    return out


def sigmoid(x: Floats) -> Floats:
    out = np.empty_like(x)
    _native.sigmoid(x, out)
    return out


def softmax(x: Floats) -> Floats:
    """Over the rows of [rows, n]. -inf gives 0; a row with NaN or +inf becomes NaN.

    ValueError: a row is -inf everywhere.
    """
    out = np.empty_like(x)
    _native.softmax(x, out)
    return out


def log_sum_exp(x: Floats) -> NDArray[np.float64]:
    """Of each row of [rows, n], for log probabilities x - log_sum_exp(x); refuses as softmax does.

    The fp32 exponentials are summed in double by blocks: right to about 2e-7.
    """
    out = np.empty(len(x), np.float64)
    _native.log_sum_exp(x, out)
    return out


def rope_table(
    positions: NDArray[np.int64], inv_freq: Floats, scale: float = 1.0
) -> tuple[Floats, Floats]:
    """cos and sin, each [positions, inv_freq], of the fp32 angle position * inv_freq, times scale.

    ValueError: an angle is not finite or beyond 2^24.
    """
    shape = (len(positions), len(inv_freq))
    cos, sin = np.empty(shape, np.float32), np.empty(shape, np.float32)
    _native.rope_table(positions, inv_freq, scale, cos, sin)
    return cos, sin


def apply_rope(x: Floats, cos: Floats, sin: Floats, offset: int, interleaved: bool) -> None:
    """Rotates dimensions offset .. offset + 2 * half of each head of x [rows, heads, dim] in place.

    cos and sin are [rows, half]. Pairs are (i, i + half), or (2i, 2i + 1) where interleaved:
    (a, b) -> (a c - b s, b c + a s).
    """
    _native.apply_rope(x, cos, sin, offset, interleaved)

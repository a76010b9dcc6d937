"""The products of csrc/packed.cpp, dense.cpp and moe.cpp in plain NumPy.

Integers are exact; a fused multiply-add is taken in float64 and rounded once more, so that floats
agree to about an ulp.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from colibri.kernels.reference.packing import GROUP, split, to_float32, unpack

Array = npt.NDArray[Any]
F32 = npt.NDArray[np.float32]
U8 = npt.NDArray[np.uint8]


def fma(a: Array, b: Array, c: Array) -> F32:
    return (a.astype(np.float64) * b + c).astype(np.float32)


def quantize_activations(x: F32, planes: int) -> tuple[npt.NDArray[np.int32], F32]:
    """x [T, K] -> q [T, planes, G, 64], scales [T, planes, G]: x = scale_1 q_1 + scale_2 q_2."""
    v = np.pad(x, ((0, 0), (0, -x.shape[1] % GROUP))).reshape(len(x), -1, GROUP)
    m = np.abs(v).max(axis=2)
    fine = np.isfinite(m) & (m >= np.float32(2.0**-100))
    safe = np.where(fine, m, np.float32(127))
    scale = np.where(fine, safe / np.float32(127), np.where(np.isfinite(m), 0, np.nan))
    q, scales = [], []
    with np.errstate(invalid="ignore"):
        first = np.rint(v * (np.float32(127) / safe)[..., None])
        step = (safe / np.float32(127))[..., None]
        rest = fma(-first, step, v)
        second = np.rint(rest * (np.float32(254) / step))
    for plane, divisor in ((first, 1), (second, 254))[:planes]:
        q.append(np.where(fine[..., None], np.clip(plane, -127, 127), 0).astype(np.int32))
        scales.append((scale.astype(np.float32) / np.float32(divisor)).astype(np.float32))
    return np.stack(q, axis=1), np.stack(scales, axis=1)


def matmul_packed(
    x: F32, data: U8, scheme: str, rows: int, multiplier: float, planes: int = 2
) -> F32:
    """x [T, K] times packed [rows, K] -> [T, rows]."""
    w, scale_w = split(data, scheme, x.shape[1])
    q, scale_x = quantize_activations(x, planes)
    isum = np.einsum("tpgi,ngi->tpgn", q, w.astype(np.int32))
    acc = np.zeros((len(x), planes, len(w)), np.float32)
    for g in range(w.shape[1]):
        acc = fma(isum[:, :, g], scale_x[:, :, g, None] * scale_w[:, g], acc)
    total = acc[:, 0] if planes == 1 else acc[:, 0] + acc[:, 1]
    return np.ascontiguousarray((total * np.float32(multiplier))[:, :rows])


def matmul_dense(x: F32, w: Array) -> F32:
    """x [T, K] times [rows, K] (float32, float16, bf16) -> [T, rows]; sums in 16 lanes."""
    tail = ((0, 0), (0, -x.shape[1] % 16))
    v = np.pad(x, tail).reshape(len(x), 1, -1, 16)
    u = np.pad(to_float32(w), tail).reshape(1, len(w), -1, 16)
    acc = np.zeros((len(x), len(w), 16), np.float32)
    for i in range(v.shape[2]):
        acc = fma(u[:, :, i], v[:, :, i], acc)
    while acc.shape[2] > 1:
        half = acc.shape[2] // 2
        acc = acc[..., :half] + acc[..., half:]
    total: F32 = acc[..., 0]
    return total


def embed(
    ids: npt.NDArray[np.int64], data: U8, scheme: str, rows: int, cols: int, multiplier: float
) -> F32:
    """Rows of a packed matrix."""
    return np.take(unpack(data, scheme, rows, cols, multiplier), ids, axis=0)


def silu(x: F32) -> F32:
    with np.errstate(over="ignore"):
        y: F32 = (x / (1 + np.exp(-x.astype(np.float64)))).astype(np.float32)
    return y

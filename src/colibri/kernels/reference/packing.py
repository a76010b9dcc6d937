"""Quantisation and the r16-v1 layout in plain NumPy: the meaning of csrc/pack.cpp, byte for byte.

A block is 16 rows x K: the weights of all groups of 64 inputs, then all scales, then zeros up to
a multiple of 64 bytes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
F32 = npt.NDArray[np.float32]
U8 = npt.NDArray[np.uint8]

GROUP = 64
ROWS = 16


def to_float32(w: Array) -> F32:
    """float32, float16 or bf16 (as uint16) to float32, exactly."""
    if w.dtype == np.uint16:
        return (w.astype(np.uint32) << 16).view(np.float32)
    return w.astype(np.float32)


def groups_of(w: Array) -> F32:
    """w [N, K] -> [Npad, G, 64], zeros below and to the right."""
    n, k = w.shape
    padded = np.pad(to_float32(w), ((0, -n % ROWS), (0, -k % GROUP)))
    return padded.reshape(len(padded), -(-k // GROUP), GROUP)


def group_scales(w: F32, scheme: str) -> F32:
    """w [N, G, 64] -> the scales before fp16 and before the multiplier [N, G]."""
    at = np.argmax(np.abs(w), axis=2)[..., None]
    m: Array = np.take_along_axis(w, at, axis=2)[..., 0]
    if scheme == "int4-gs64":
        return np.divide(m, np.float32(-8))
    return np.divide(np.abs(m), np.float32(127))


def scale_range(w: Array, scheme: str) -> tuple[float, float]:
    """Smallest and largest nonzero |scale|; (inf, 0) if there is none."""
    scales = np.abs(group_scales(groups_of(w), scheme))
    scales = scales[scales > 0]
    return (float(scales.min()), float(scales.max())) if scales.size else (np.inf, 0.0)


def quantize(
    w: Array, scheme: str, multiplier: float
) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.float16]]:
    """w [N, K] -> q [Npad, G, 64], scales [Npad, G]."""
    padded = groups_of(w)
    mult = np.float32(multiplier)
    s = (group_scales(padded, scheme) / mult).astype(np.float16)
    s32 = s.astype(np.float32) * mult
    dead = s32 == 0  # also a scale that fp16 or fp32 could not hold
    low, high = (-8, 7) if scheme == "int4-gs64" else (-127, 127)
    ratio = padded / np.where(dead, np.float32(1), s32)[..., None]
    q = np.clip(np.rint(ratio), low, high).astype(np.int8)
    q[dead] = 0
    s[dead] = 0
    return q, s


def pack(w: Array, scheme: str, multiplier: float) -> U8:
    """w [N, K] -> the bytes of its row blocks."""
    q, s = quantize(w, scheme, multiplier)
    blocks, groups = q.shape[0] // ROWS, q.shape[1]
    # [B, r, G, ...] -> [B, G, j, r, b]
    u: Array
    if scheme == "int4-gs64":
        u = (q + 8).view(np.uint8).reshape(blocks, ROWS, groups, 8, 2, 4)
        weights: Array = (u[..., 0, :] | u[..., 1, :] << 4).transpose(0, 2, 3, 1, 4)
    else:
        u = np.add(q.view(np.uint8), np.uint8(128)).reshape(blocks, ROWS, groups, 16, 4)
        weights = u.transpose(0, 2, 3, 1, 4)
    scales = s.reshape(blocks, ROWS, groups).transpose(0, 2, 1)
    scale_bytes = np.ascontiguousarray(scales).view(np.uint8)
    body = np.concatenate([weights.reshape(blocks, -1), scale_bytes.reshape(blocks, -1)], axis=1)
    return np.pad(body, ((0, 0), (0, -body.shape[1] % 64))).reshape(-1)


def split(data: U8, scheme: str, cols: int) -> tuple[npt.NDArray[np.int8], F32]:
    """The bytes of row blocks -> q [Npad, G, 64], scales as float32 [Npad, G]."""
    groups = -(-cols // GROUP)
    per_group = 512 if scheme == "int4-gs64" else 1024
    size = groups * (per_group + 32)
    block = data.reshape(-1, size + -size % 64)
    weights = block[:, : groups * per_group]
    v: Array
    if scheme == "int4-gs64":
        v = weights.reshape(-1, groups, 8, ROWS, 1, 4)
        v = np.concatenate([v & 15, v >> 4], axis=4).view(np.int8) - np.int8(8)
        q = v.transpose(0, 3, 1, 2, 4, 5)
    else:
        v = (weights - np.uint8(128)).view(np.int8).reshape(-1, groups, 16, ROWS, 4)
        q = v.transpose(0, 3, 1, 2, 4)
    raw = np.ascontiguousarray(block[:, groups * per_group : size]).view(np.float16)
    scales: Array = raw.reshape(-1, groups, ROWS).transpose(0, 2, 1).reshape(-1, groups)
    return q.reshape(-1, groups, GROUP), scales.astype(np.float32)


def unpack(data: U8, scheme: str, rows: int, cols: int, multiplier: float) -> F32:
    """The bytes of row blocks -> float32 [rows, cols]."""
    q, scales = split(data, scheme, cols)
    step = scales * np.float32(multiplier)
    w = q.astype(np.float32) * step[..., None]
    return np.ascontiguousarray(w.reshape(len(q), -1)[:rows, :cols])

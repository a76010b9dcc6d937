"""Quantisation and the r16-v1 layout in plain NumPy: the meaning of csrc/pack.cpp, byte for byte.

A block is 16 rows x K: the weights of all groups of 64 inputs, then all scales, then zeros up to
a multiple of 64 bytes. int3 is made from packed int4 or int8, and is in memory only.
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
    return _blocks(weights, s)


def narrow(data: U8, scheme: str, cols: int) -> U8:
    """The bytes of int4 or int8 row blocks -> those of int3-gs64."""
    q, scales = split(data, scheme, cols)
    u: Array
    if scheme == "int4-gs64":
        u = (q + 8) >> 1
    else:
        wide = q.astype(np.int16)
        mirror = wide.max(axis=2) > -wide.min(axis=2)
        sign = np.where(mirror, -1, 1)
        u = np.minimum((wide * sign[..., None] + 136) >> 5, 7)
        scales = scales * np.where(mirror, np.float32(-1), np.float32(1))
    blocks, groups = len(q) // ROWS, q.shape[1]
    codes = u.astype(np.uint8).reshape(blocks, ROWS, groups, GROUP)
    low = _plane(codes & 3, 2).reshape(blocks, groups, -1)
    high = _plane(codes >> 2, 1).reshape(blocks, groups, -1)
    weights = np.concatenate([low, high], axis=2)
    return _blocks(weights, scales.astype(np.float16))


def _plane(codes: Array, bits: int) -> Array:
    """[B, r, G, 64] codes of so many bits -> [B, G, line, r, b], a byte of inputs b, b + 4, ..."""
    each = 8 // bits
    parts = codes.reshape(*codes.shape[:3], -1, each, 4)
    shifts = (bits * np.arange(each, dtype=np.uint8))[:, None]
    packed: Array = np.bitwise_or.reduce(parts << shifts, axis=4)
    return packed.transpose(0, 2, 3, 1, 4)


def _blocks(weights: Array, s: npt.NDArray[np.float16]) -> U8:
    """Weights [B, G, ...] and scales [Npad, G] -> row blocks."""
    blocks, groups = weights.shape[:2]
    scales = s.reshape(blocks, ROWS, groups).transpose(0, 2, 1)
    scale_bytes = np.ascontiguousarray(scales).view(np.uint8)
    body = np.concatenate([weights.reshape(blocks, -1), scale_bytes.reshape(blocks, -1)], axis=1)
    return np.pad(body, ((0, 0), (0, -body.shape[1] % 64))).reshape(-1)


def split(data: U8, scheme: str, cols: int) -> tuple[npt.NDArray[np.int8], F32]:
    """The bytes of row blocks -> q [Npad, G, 64], scales as float32 [Npad, G]."""
    groups = -(-cols // GROUP)
    per_group = {"int3-gs64": 384, "int4-gs64": 512, "int8-gs64": 1024}[scheme]
    size = groups * (per_group + 32)
    block = data.reshape(-1, size + -size % 64)
    weights = block[:, : groups * per_group]
    v: Array
    if scheme == "int3-gs64":
        planes = weights.reshape(-1, groups, 6, ROWS, 1, 4)
        low = planes[:, :, :4] >> np.arange(0, 8, 2, dtype=np.uint8)[:, None] & 3
        high = planes[:, :, 4:] >> np.arange(8, dtype=np.uint8)[:, None] & 1
        # [B, G, line, r, c, b] -> [B, r, G, 64]
        u, top = (p.transpose(0, 3, 1, 2, 4, 5).reshape(-1, groups, GROUP) for p in (low, high))
        q = (4 * (u | top << 2)).view(np.int8) - np.int8(15)
    elif scheme == "int4-gs64":
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
